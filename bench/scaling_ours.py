"""The shipped decision, with and without the shipped correction of its target, as rules of `bench/autoscaling.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from bench.engine_steps import Floats
from bench.fleet_simulation import EngineModel, Fleet, Observed, Scaler
from bench.serving_model import costs_of
from inference_operator.api.hardware import Device
from inference_operator.autoscaling.decision import (
    ScalingSample,
    ScalingSettings,
    ScalingState,
    decide,
    is_short,
    target_decides,
)
from inference_operator.autoscaling.latency import LatencyWindow, target_correction
from inference_operator.autoscaling.target import Target, TargetBound, target_concurrency
from inference_operator.sizing.budget import TYPICAL_TOKENS
from inference_operator.sizing.plan import PerGpu, Plan
from inference_operator.sizing.serving import TYPICAL_LOAD, Load
from inference_operator.sizing.shape import Objective, ParallelSizes
from inference_operator.views.samples import EngineSample, Histogram, TokenCounts

NEVER_IDLE = 1e9
OBJECTIVE = Objective()
FIRST_TOKEN_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0)
TOKEN_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
"""Bounds of the buckets of vLLM's histograms in seconds (0.32.0, vllm/v1/metrics/loggers.py)."""
LENGTH_BOUNDS = tuple(float(digit * 10**power) for power in range(6) for digit in (1, 2, 5))
"""Bounds of its buckets for tokens (`build_1_2_5_buckets` in the same file)."""
NO_SIZES = PerGpu(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {})
"""A plan's sizes of a GPU, which decide no target, but for its sequences."""
CONTEXT = 1_000_000
"""Longer than any request of the traces: the simulated engine refuses none."""


def ours(concurrency: float, fleet: Fleet) -> Scaler:
    """The shipped decision with a fixed target."""
    target = Target(concurrency, TargetBound.REQUESTED, {})
    return _decided(lambda _sample, _seen, _settings, _desired: target, fleet)


def shipped(fleet: Fleet, *, load: Load = TYPICAL_LOAD, wrong: float = 1.0) -> Scaler:
    """What ships: the computed target, corrected by what engines measure, and no knob.

    Args:
        fleet: the surroundings.
        load: lengths of requests that a former process has measured; those of typical requests if none has.
        wrong: the computed target is multiplied by this.
    """
    return _decided(_Shipped(plan_of(fleet.engine), wrong, load).target, fleet)


def _decided(target: Callable[[ScalingSample, Observed, ScalingSettings, int], Target], fleet: Fleet) -> Scaler:
    state = [ScalingState()]

    def scale(seen: Observed, desired: int) -> int:
        sample = ScalingSample(
            at=seen.at,
            outstanding=seen.outstanding,
            arrivals=seen.arrivals,
            completions=seen.completions,
            running=seen.running,
            ready=seen.ready,
            starting=seen.starting,
        )
        settings = ScalingSettings(1, fleet.max_replicas, 1.0, fleet.start_seconds, NEVER_IDLE)
        found = target(sample, seen, settings, desired)
        settings = replace(settings, target_concurrency=found.concurrency, least_seconds=found.least_seconds)
        decision, state[0] = decide(sample, settings, state[0], replicas=desired)
        return decision.replicas

    return scale


def plan_of(engine: EngineModel) -> Plan:
    """A plan with the limits and the costs of a simulated engine."""
    per_gpu = replace(NO_SIZES, max_concurrency_at_2048_tokens=engine.kv_tokens / TYPICAL_TOKENS)
    return Plan(
        Device.GPU,
        ParallelSizes(1),
        1,
        *("4", "16Gi", "2Gi", "2Gi"),
        per_gpu=per_gpu,
        max_model_len=CONTEXT,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_batched_tokens,
        step=costs_of(engine),
    )


@dataclass
class _Shipped:
    """The loop from engines' metrics to a target, as `autoscaling/loop.py` and the pipeline have it."""

    plan: Plan
    wrong: float
    load: Load
    factor: float = 1.0
    _known: dict[Load, Target] = field(default_factory=dict)
    """Targets that were computed before."""
    _window: LatencyWindow = LatencyWindow()  # noqa: RUF009 - it never changes
    _sample: EngineSample = EngineSample("m", 0, 0, ())  # noqa: RUF009 - as above

    def target(self, sample: ScalingSample, seen: Observed, settings: ScalingSettings, desired: int) -> Target:
        """The target after what is seen now."""
        self._sample = _after(self._sample, seen)
        target = self._target()
        settings = replace(settings, target_concurrency=target.concurrency)
        counts = not is_short(sample, settings, desired)
        self._window = self._window.after({"engine": self._sample}, at=seen.at, counts=counts)
        decides = target_decides(sample, settings, desired)
        self.factor, self.load, self._window = target_correction(self._window, target, settings, decides=decides)
        return self._target()

    def _target(self) -> Target:
        sequences = self.plan.max_num_seqs
        assert sequences is not None  # noqa: S101 - `plan_of` sets it
        if self.load not in self._known:
            known = target_concurrency(self.plan, max_num_seqs=sequences, objective=OBJECTIVE, load=self.load)
            self._known[self.load] = known
        found = self._known[self.load]
        bounds = {name: value * (1 if value == sequences else self.wrong) for name, value in found.bounds.items()}
        wrong = replace(found, bounds=bounds, factor=self.factor)
        return replace(wrong, concurrency=max(1.0, min(wrong.computed * self.factor, float(sequences))))


def _after(before: EngineSample, seen: Observed) -> EngineSample:
    """The metrics of all engines, as those of one, after some requests more."""
    counts = before.tokens or TokenCounts(0.0, 0.0, 0.0)
    tokens = TokenCounts(
        counts.requests + len(seen.prompts),
        counts.prompt + float(seen.prompts.sum()),
        counts.answer + float(seen.answers.sum()),
        counts.looked_up + float(seen.prompts.sum()),
        counts.cached + float(seen.cached.sum()),
    )
    return replace(
        before,
        ttft=_added(before.ttft, seen.first_token, FIRST_TOKEN_BOUNDS),
        tpot=_added(before.tpot, seen.token, TOKEN_BOUNDS),
        prompts=_added(before.prompts, seen.prompts - seen.cached, LENGTH_BOUNDS),
        answers=_added(before.answers, seen.answers, LENGTH_BOUNDS),
        tokens=tokens,
    )


def _added(before: Histogram | None, values: Floats, bounds: Sequence[float]) -> Histogram:
    bounds = (*bounds, inf)
    found = before or Histogram(bounds, (0.0,) * len(bounds), 0.0)
    grown = np.searchsorted(np.sort(values), bounds, side="right")
    counts = tuple(float(count + more) for count, more in zip(found.counts, grown, strict=True))
    return Histogram(bounds, counts, found.total + float(values.sum()))
