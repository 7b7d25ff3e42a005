"""The rules of other autoscalers, as their documents describe them, for `bench/autoscaling.py`.

| rule | source |
|---|---|
| HPA | Kubernetes documentation, "Horizontal Pod Autoscaling": algorithm details, default behaviour |
| KEDA | KEDA 2.18 documentation, "Scaling Deployments": polling of 30 s, an HPA with AverageValue |
| KPA | Knative Serving documentation, "Configuring autoscaling": stable window 60 s, panic window 6 s at 200 % |
| KubeAI | KubeAI documentation, "Configure autoscaling": mean of active requests over 10 min, target 100, each 10 s |
| APA | AIBrix documentation, "Metric-based autoscaling": tolerance 10 %, up rate 2, window 300 s |
| WVA | llm-d workload-variant-autoscaler documentation: saturation by spare KV cache and spare queue |

Each factory takes the target and returns a `Scaler`. Limits are applied by the replay.
"""

from collections import deque
from collections.abc import Callable
from math import ceil

import numpy as np

from bench.fleet_simulation import Observed, Scaler, Workload
from inference_operator.autoscaling.query import DRAIN_SECONDS, UTILIZATION

TOLERANCE = 0.1
"""A ratio closer to one than this changes nothing (HPA, APA)."""
HPA_SECONDS, HPA_DOWN_SECONDS = 15.0, 300.0
KEDA_POLL_SECONDS = 30.0
KUBEAI_SECONDS, KUBEAI_MEAN_SECONDS, KUBEAI_DOWN_SECONDS = 10.0, 600.0, 30.0
KPA_STABLE_SECONDS, KPA_PANIC_SECONDS, KPA_PANIC = 60.0, 6.0, 2.0
APA_DOWN_SECONDS, APA_UP_RATE = 300.0, 2.0
LITE_SECONDS = 120.0
"""Window of the mean time of a request, as in the query."""
WVA_SECONDS, WVA_KV, WVA_KV_SPARE, WVA_QUEUE, WVA_QUEUE_SPARE = 60.0, 0.8, 0.1, 5.0, 3.0

Metric = Callable[[Observed], float]


def outstanding(seen: Observed) -> float:
    """All unfinished requests."""
    return seen.outstanding


def waiting(seen: Observed) -> float:
    """Requests that wait in engines."""
    return seen.waiting


class Window:
    """The extreme or mean of a value over the last seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: deque[tuple[float, float]] = deque()

    def add(self, at: float, value: float) -> None:
        """Add a value, and forget those that are too old."""
        self._values.append((at, value))
        while self._values[0][0] < at - self._seconds:
            self._values.popleft()

    def largest(self) -> float:
        """The largest value."""
        return max(value for _, value in self._values)

    def mean(self) -> float:
        """The mean value."""
        return sum(value for _, value in self._values) / len(self._values)


def _each(seconds: float, rule: Scaler) -> Scaler:
    """The rule, evaluated once in this time."""
    due = [0.0]

    def scale(seen: Observed, desired: int) -> int:
        if seen.at + 1e-6 < due[0]:
            return desired
        due[0] = seen.at + seconds
        return rule(seen, desired)

    return scale


def static(replicas: int) -> Scaler:
    """Always the same number."""
    return lambda _seen, _desired: replicas


def hpa(metric: Metric, target: float) -> Scaler:
    """HPA with a Pods metric: ceil(ready x mean / target), at most double or four more in 15 s."""
    window = Window(HPA_DOWN_SECONDS)

    def rule(seen: Observed, desired: int) -> int:
        ratio = metric(seen) / max(seen.ready, 1) / target
        # Pods that are not ready count as zero when it scales up, and so do not add to the mean.
        wanted = desired
        if abs(ratio - 1) > TOLERANCE:
            wanted = ceil(ratio * max(seen.ready, 1))
            known = metric(seen) / max(desired, 1) / target
            if ratio > 1:
                wanted = ceil(known * desired) if known > 1 + TOLERANCE else desired
        wanted = max(1, min(wanted, max(2 * desired, desired + 4)))
        window.add(seen.at, wanted)
        return wanted if wanted > desired else min(desired, int(window.largest()))

    return _each(HPA_SECONDS, rule)


def keda(metric: Metric, target: float) -> Scaler:
    """KEDA with AverageValue: ceil(sum / target), read each 30 s, through an HPA."""
    window, value = Window(HPA_DOWN_SECONDS), [0.0, -1e9]

    def rule(seen: Observed, desired: int) -> int:
        if seen.at - value[1] >= KEDA_POLL_SECONDS:
            value[:] = [metric(seen), seen.at]
        ratio = value[0] / target / max(desired, 1)
        wanted = desired if abs(ratio - 1) <= TOLERANCE else ceil(value[0] / target)
        wanted = max(1, min(wanted, max(2 * desired, desired + 4)))
        window.add(seen.at, wanted)
        return wanted if wanted > desired else min(desired, int(window.largest()))

    return _each(HPA_SECONDS, rule)


def lite(target: float) -> Scaler:
    """What the query for HPA and KEDA says, read at once and without error: level / 0.85 + backlog x min(1, S/30 s)."""
    window, before = Window(HPA_DOWN_SECONDS), deque[Observed]()

    def rule(seen: Observed, desired: int) -> int:
        before.append(seen)
        while before[0].at < seen.at - LITE_SECONDS:
            before.popleft()
        rate = (seen.completions - before[0].completions) / max(seen.at - before[0].at, 1.0)
        service = sum(one.running for one in before) / len(before) / rate if rate > 0 else DRAIN_SECONDS
        level = min(seen.outstanding, target * seen.ready) / UTILIZATION
        backlog = max(0.0, seen.outstanding - target * seen.ready) * min(1.0, service / DRAIN_SECONDS)
        wanted = max(1, ceil((level + backlog) / target))
        window.add(seen.at, wanted)
        return wanted if wanted > desired else min(desired, int(window.largest()))

    return rule


def knative(target: float) -> Scaler:
    """KPA on concurrency: the mean of 60 s, in panic the mean of 6 s and never down; a scale-down delay of 300 s."""
    stable, panic, window = Window(KPA_STABLE_SECONDS), Window(KPA_PANIC_SECONDS), Window(HPA_DOWN_SECONDS)
    until = [0.0]

    def rule(seen: Observed, desired: int) -> int:
        stable.add(seen.at, seen.outstanding)
        panic.add(seen.at, seen.outstanding)
        wanted, fast = ceil(stable.mean() / target), ceil(panic.mean() / target)
        if fast >= KPA_PANIC * max(seen.ready, 1):
            until[0] = seen.at + KPA_STABLE_SECONDS
        if seen.at < until[0]:
            wanted = max(wanted, fast, desired)
        wanted = max(1, min(wanted, 1000 * max(desired, 1)))
        window.add(seen.at, wanted)
        return wanted if wanted > desired else min(desired, int(window.largest()))

    return rule


def kubeai(target: float) -> Scaler:
    """KubeAI: ceil(mean of 10 minutes / target), each 10 s, down after 30 s."""
    mean, window = Window(KUBEAI_MEAN_SECONDS), Window(KUBEAI_DOWN_SECONDS)

    def rule(seen: Observed, desired: int) -> int:
        mean.add(seen.at, seen.outstanding)
        wanted = max(1, ceil(mean.mean() / target))
        window.add(seen.at, wanted)
        return wanted if wanted > desired else min(desired, int(window.largest()))

    return _each(KUBEAI_SECONDS, rule)


def aibrix(target: float) -> Scaler:
    """APA: replicas x metric / target outside a tolerance, at most doubled."""
    window = Window(APA_DOWN_SECONDS)

    def rule(seen: Observed, desired: int) -> int:
        ratio = seen.outstanding / max(seen.ready, 1) / target
        wanted = desired
        if abs(ratio - 1) > TOLERANCE:
            wanted = ceil(max(seen.ready, 1) * ratio)
        wanted = max(1, min(wanted, ceil(APA_UP_RATE * max(desired, 1))))
        window.add(seen.at, wanted)
        return wanted if wanted > desired else min(desired, int(window.largest()))

    return _each(HPA_SECONDS, rule)


def workload_variant(kv_spare: float) -> Scaler:
    """WVA: one more if spare KV cache or queue is short and none starts, one less if there is plenty."""

    def rule(seen: Observed, desired: int) -> int:
        ready = max(seen.ready, 1)
        spare_kv, spare_queue = WVA_KV - seen.kv_usage, WVA_QUEUE - (seen.waiting + seen.queued) / ready
        if (spare_kv < kv_spare or spare_queue < WVA_QUEUE_SPARE) and seen.starting == 0:
            return desired + 1
        if ready > 1 and WVA_KV - seen.kv_usage * ready / (ready - 1) > kv_spare and spare_queue >= WVA_QUEUE_SPARE:
            return max(1, desired - 1)
        return desired

    return _each(WVA_SECONDS, rule)


def clairvoyant(workload: Workload, service_seconds: float, target: float, lead_seconds: float) -> Scaler:
    """Knows all arrivals: the largest need from now until `lead_seconds` later, with square-root headroom."""
    width = 10.0
    edges = np.arange(0.0, workload.seconds + width, width)
    counts = np.histogram(workload.arrivals, edges)[0] / width
    smooth = np.convolve(counts, np.ones(6) / 6, mode="same") * service_seconds
    need = np.ceil((smooth + 2 * np.sqrt(smooth)) / target)

    def rule(seen: Observed, _desired: int) -> int:
        first = min(int(seen.at / width), len(need) - 1)
        return max(1, int(need[first : first + round(lead_seconds / width) + 1].max()))

    return rule
