"""The autoscaling loop of one role: a state machine from rounds of scrapes to a number of engines.

1. The pipeline makes `ScalingInputs` from the specification and the pinned plan.
2. Each round of scrapes becomes a sample (`demand.py`), a decision (`decision.py`) and a factor of the target
   concurrency (`latency.py`, `target_correction.py`).
3. The pipeline reads the result (`inputs.autoscaled_replicas`), and the workload gets its replicas. The next
   `ScalingInputs` have them, and the next samples come from their engines.

With the backends `HPA` and `KEDA` none of this runs: there `query.py` is the law.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from inference_operator.autoscaling.decision import ScalingSample, ScalingState, decide, is_short, target_decides
from inference_operator.autoscaling.demand import Totals, scaling_sample
from inference_operator.autoscaling.inputs import ScalingInputs, ScalingResult
from inference_operator.autoscaling.latency import LatencyWindow, target_correction
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import PodView
from inference_operator.views.samples import Samples

MISSES_BEFORE_STATUS = 2
"""Rounds in a row without a pod's metrics after which the status says so. One may fail while the pod is busy."""


@dataclass(frozen=True, slots=True)
class ScrapeRound:
    engines: Sequence[EngineView]
    routers: Sequence[PodView]
    samples: Samples
    at: float
    """Seconds of a monotonic clock."""


@dataclass(frozen=True, slots=True)
class LoopState:
    inputs: ScalingInputs
    decision: ScalingState = field(default_factory=ScalingState)
    totals: Totals = field(default_factory=Totals)
    latency: LatencyWindow = field(default_factory=LatencyWindow)
    sample: ScalingSample | None = None
    misses: int = 0
    result: ScalingResult | None = None

    @property
    def has_demand(self) -> bool:
        return self.sample is not None and self.sample.outstanding > 0


def requested(state: LoopState | None, inputs: ScalingInputs) -> LoopState:
    """The state with a new inputs. A factor of the target belongs to one plan, so another plan begins a new window."""
    if state is None:
        return LoopState(inputs)
    latency = state.latency if inputs.plan == state.inputs.plan else LatencyWindow()
    return replace(state, inputs=inputs, latency=latency)


def observed(state: LoopState, scraped: ScrapeRound) -> tuple[LoopState, ScalingResult]:
    inputs, before = state.inputs, state.result
    engines = [engine for engine in scraped.engines if engine.component == inputs.role]
    replicas = before.decision.replicas if before else inputs.replicas
    sample, totals = scaling_sample(
        engines,
        scraped.routers,
        scraped.samples,
        state.totals,
        at=scraped.at,
        bypasses_routers=inputs.bypasses_routers,
        share=inputs.share,
        of_prompts=inputs.of_prompts,
    )
    decision, decided = decide(sample, inputs.settings, state.decision, replicas=replicas)
    answered = scraped.samples.engines
    latencies = {engine.uid: answered[engine.uid].sample for engine in engines if engine.uid in answered}
    counts = not is_short(sample, inputs.settings, decision.replicas)
    window = state.latency.staying(engine.uid for engine in engines).after(latencies, at=scraped.at, counts=counts)
    decides = target_decides(sample, inputs.settings, decision.replicas)
    factor, load, window = target_correction(window, inputs.target, inputs.settings, decides=decides)
    misses = state.misses + 1 if sample.missing else 0
    missing = sample.missing if misses >= MISSES_BEFORE_STATUS else ()
    result = ScalingResult(decision, missing, factor, inputs.plan, load, window.judged)
    return LoopState(inputs, decided, totals, window, sample, misses, result), result


def needs_reconcile(before: LoopState, result: ScalingResult) -> bool:
    """Whether a round changes what the resource should have, or what its status should say."""
    inputs, former = before.inputs, before.result
    target = inputs.target
    if former is None or result.decision.replicas != inputs.replicas:
        return True
    if (result.factor, result.load) != (target.factor, target.load):
        return True
    return former.missing != result.missing
