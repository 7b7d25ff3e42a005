"""Reads the metrics that an operator exports."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.manifest import KIND

SAMPLE = re.compile(r"^(infd_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Metrics:
    """All metrics of one scrape, by name and labels."""

    values: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, text: str) -> "Metrics":
        """Parse the Prometheus text format."""
        values: dict[str, dict[str, float]] = {}
        for name, labels, value in SAMPLE.findall(text):
            values.setdefault(name, {})[labels] = float(value)
        return cls(values)

    def total(self, name: str, *parts: str) -> float:
        """The sum of a metric over all label sets that contain these texts."""
        series = self.values.get(name, {})
        return sum(value for labels, value in series.items() if all(text in labels for text in parts))

    @property
    def writes(self) -> Counter[str]:
        """Numbers of write requests, by `child`, `status` and `event`."""
        writes: Counter[str] = Counter()
        for labels, count in self.values.get("infd_api_requests_total", {}).items():
            if 'verb="PATCH"' in labels or 'verb="DELETE"' in labels:
                target = "status" if f'kind="{KIND}"' in labels else "event" if 'kind="Event"' in labels else "child"
                writes[target] += int(count)
        return writes

    def percentile(self, share: float, since: "Metrics") -> float:
        """Seconds from event to apply: the percentile of all observations since an earlier scrape."""
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
