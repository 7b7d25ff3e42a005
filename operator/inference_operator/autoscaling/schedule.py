"""The fewest engines at a time: `minReplicas`, or what the schedule asks for if that is more."""

from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.autoscaling import AutoscalingSpec


@dataclass(frozen=True, slots=True)
class Floor:
    """The fewest engines now."""

    replicas: int
    entry: int | None = None
    """Index of the entry of the schedule that asks for them; None for `minReplicas`."""
    until: datetime | None = None
    """End of that entry."""
    due: datetime | None = None
    """The next begin or end of an entry; None without a schedule."""

    @property
    def field(self) -> str:
        """The field that says so."""
        return "autoscaling.minReplicas" if self.entry is None else f"autoscaling.schedule[{self.entry}].minReplicas"


def floor_at(spec: AutoscalingSpec, now: datetime) -> Floor:
    due = min((moment for entry in spec.schedule for moment in entry.changes(now) if moment), default=None)
    active = [
        (entry.min_replicas, -index, end)
        for index, entry in enumerate(spec.schedule)
        if (end := entry.closes_at(now)) is not None
    ]
    replicas, index, until = max(active, default=(0, 0, None), key=lambda entry: entry[:2])
    if replicas <= spec.min_replicas:
        return Floor(spec.min_replicas, due=due)
    return Floor(replicas, -index, until, due)
