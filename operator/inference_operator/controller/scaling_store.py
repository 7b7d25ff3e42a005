"""What autoscaling remembers between two rounds of scrapes, for each InferenceDeployment: written by `scrape`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from inference_operator.autoscaling.decision import ScalingSample, ScalingState, decide
from inference_operator.autoscaling.demand import Totals, scaling_sample
from inference_operator.autoscaling.latency import LatencyWindow, correction
from inference_operator.autoscaling.request import ScalingRequest, ScalingResult
from inference_operator.manifest import Key
from inference_operator.views.pod import PodView
from inference_operator.views.samples import Samples

SAID_AFTER = 2
"""Rounds in a row without a pod's metrics after which the status says so. One may fail while the pod is busy."""


@dataclass(slots=True)
class _Entry:
    """One InferenceDeployment whose number of engines the operator decides."""

    request: ScalingRequest
    state: ScalingState = field(default_factory=ScalingState)
    totals: Totals = field(default_factory=Totals)
    result: ScalingResult | None = None
    sample: ScalingSample | None = None
    misses: int = 0
    """Rounds in a row with missing metrics."""
    latency: LatencyWindow = field(default_factory=LatencyWindow)


class ScalingStore:
    """Requests, samples and decisions by key. A new process starts empty: it holds until it has seen a whole window."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry] = {}

    def want(self, key: Key, request: ScalingRequest | None) -> None:
        """Store what the next decisions depend on; None ends them."""
        if request is None:
            self._entries.pop(key, None)
        elif entry := self._entries.get(key):
            if request.plan != entry.request.plan:
                entry.latency = LatencyWindow()  # a correction belongs to one plan of the engines
            entry.request = request
        else:
            self._entries[key] = _Entry(request)

    def request(self, key: Key) -> ScalingRequest | None:
        """What decisions depend on; None where the operator does not decide."""
        entry = self._entries.get(key)
        return entry.request if entry else None

    def result(self, key: Key) -> ScalingResult | None:
        """The latest decision; None before the first one."""
        entry = self._entries.get(key)
        return entry.result if entry else None

    def keys(self) -> list[Key]:
        """The keys about which the operator decides."""
        return list(self._entries)

    def has_demand(self, key: Key) -> bool:
        """Whether the latest sample has requests."""
        entry = self._entries.get(key)
        return entry is not None and entry.sample is not None and entry.sample.outstanding > 0

    def observe(
        self, key: Key, engines: Sequence[PodView], routers: Sequence[PodView], samples: Samples, *, at: float
    ) -> bool:
        """Decide about a round of scrapes; returns whether a reconcile has something to do or to say."""
        entry = self._entries.get(key)
        if entry is None:
            return False
        request, before = entry.request, entry.result
        replicas = before.decision.replicas if before else request.replicas
        sample, entry.totals = scaling_sample(engines, routers, samples, entry.totals, at=at, external=request.external)
        decision, entry.state = decide(sample, request.settings, entry.state, replicas=replicas)
        entry.sample = sample
        entry.misses = entry.misses + 1 if sample.missing else 0
        missing = sample.missing if entry.misses >= SAID_AFTER else ()
        latencies = {uid: one.sample for uid, one in samples.engines.items()}
        window = entry.latency.staying(pod.uid for pod in engines).after(latencies, at=at)
        factor, entry.latency = correction(window, request.target, request.objective)
        entry.result = ScalingResult(decision, missing, factor, request.plan)
        if before is None or decision.replicas != request.replicas or factor != request.target.factor:
            return True
        return before.missing != missing

    def forget_all_but(self, keys: Iterable[Key]) -> None:
        """Remove all other keys."""
        staying = set(keys)
        self._entries = {key: entry for key, entry in self._entries.items() if key in staying}
