"""The shipped decision, and the shipped correction of its target, as rules of `bench/autoscaling.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from bench.engine_steps import Floats
from bench.fleet_simulation import Fleet, Observed, Scaler
from inference_operator.autoscaling.decision import ScalingSample, ScalingSettings, ScalingState, decide
from inference_operator.autoscaling.target_correction import (
    STEP_REQUESTS,
    STEP_SECONDS,
    Bounds,
    LatencySample,
    next_factor,
    part_within,
)
from inference_operator.sizing.shape import Objective

NEVER_IDLE = 1e9
OBJECTIVE = Objective()
FIRST_TOKEN_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0)
TOKEN_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
"""Bounds of the buckets of vLLM's histograms in seconds (0.32.0, vllm/v1/metrics/loggers.py)."""


def ours(concurrency: float, fleet: Fleet) -> Scaler:
    """The shipped decision with a fixed target."""
    return _decided(lambda _seen: concurrency, fleet)


def ours_corrected(concurrency: float, fleet: Fleet) -> Scaler:
    """The shipped decision, whose target starts with this value and is corrected by what engines measure."""
    return _decided(_Correction(concurrency).target, fleet)


def _decided(target: Callable[[Observed], float], fleet: Fleet) -> Scaler:
    state = [ScalingState()]

    def scale(seen: Observed, desired: int) -> int:
        settings = ScalingSettings(1, fleet.max_replicas, target(seen), fleet.start_seconds, NEVER_IDLE)
        sample = ScalingSample(
            at=seen.at,
            outstanding=seen.outstanding,
            arrivals=seen.arrivals,
            completions=seen.completions,
            running=seen.running,
            ready=seen.ready,
            starting=seen.starting,
        )
        decision, state[0] = decide(sample, settings, state[0], replicas=desired)
        return decision.replicas

    return scale


@dataclass
class _Correction:
    """What engines have measured since the last step of the correction."""

    computed: float
    factor: float = 1.0
    _since: float = 0.0
    _lowered: float = -inf
    _first: list[Floats] = field(default_factory=list)
    _token: list[Floats] = field(default_factory=list)
    _running: list[float] = field(default_factory=list)

    def target(self, seen: Observed) -> float:
        """The target after what is seen now."""
        self._first.append(seen.first_token)
        self._token.append(seen.token)
        self._running.append(seen.running / max(seen.ready, 1))
        if sum(map(len, self._first)) >= STEP_REQUESTS and seen.at - self._since >= STEP_SECONDS:
            before, sample = self.factor, self._measured(seen.at)
            self.factor = next_factor(before, self.computed, sample, OBJECTIVE)
            self._lowered = seen.at if self.factor < before else self._lowered
            self._since, self._first, self._token, self._running = seen.at, [], [], []
        return self.factor * self.computed

    def _measured(self, at: float) -> LatencySample:
        first, token = np.concatenate(self._first), np.concatenate(self._token)
        return LatencySample(
            seconds=at - self._since,
            requests=len(first),
            ttft=_within(first, FIRST_TOKEN_BOUNDS, OBJECTIVE.ttft),
            tpot=_within(token, TOKEN_BOUNDS, OBJECTIVE.tpot),
            tpot_seconds=float(np.mean(token)),
            running=float(np.mean(self._running)),
            since_lowered=at - self._lowered,
        )


def _within(values: Floats, bounds: Sequence[float], limit: float) -> Bounds:
    """What a histogram with these buckets tells."""
    counts = [float(np.count_nonzero(values <= bound)) for bound in bounds]
    found = part_within((*bounds, inf), (*counts, float(len(values))), limit)
    assert found is not None  # noqa: S101 - there are values
    return found
