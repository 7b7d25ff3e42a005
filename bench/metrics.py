"""What an operator tells of itself, read back."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.manifest import KIND

SAMPLE = re.compile(r"^(infd_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Metrics:
    """What the operator told at one moment, by name and labels."""

    values: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, text: str) -> "Metrics":
        """Read Prometheus' text."""
        values: dict[str, dict[str, float]] = {}
        for name, labels, value in SAMPLE.findall(text):
            values.setdefault(name, {})[labels] = float(value)
        return cls(values)

    def total(self, name: str, *having: str) -> float:
        """The sum of a metric over all its labels that contain these texts."""
        found = self.values.get(name, {})
        return sum(value for labels, value in found.items() if all(text in labels for text in having))

    @property
    def writes(self) -> Counter[str]:
        """Writes of children and of status."""
        found: Counter[str] = Counter()
        for labels, count in self.values.get("infd_api_requests_total", {}).items():
            if 'verb="PATCH"' in labels or 'verb="DELETE"' in labels:
                told = "status" if f'kind="{KIND}"' in labels else "event" if 'kind="Event"' in labels else "child"
                found[told] += int(count)
        return found

    def percentile(self, share: float, since: "Metrics") -> float:
        """Seconds from event to apply, of what has been counted since."""
        name = "infd_event_to_apply_seconds_bucket"
        before = since.values.get(name, {})
        counts = {_bound(labels): count - before.get(labels, 0.0) for labels, count in self.values[name].items()}
        rank, low, below = share * max(counts.values()), 0.0, 0.0
        for high, count in sorted(counts.items()):
            if count >= rank and count > below:
                return low + (high - low) * (rank - below) / (count - below) if high < math.inf else low
            low, below = high, count
        return low


def _bound(labels: str) -> float:
    return float(labels.partition('le="')[2].partition('"')[0].replace("+Inf", "inf"))
