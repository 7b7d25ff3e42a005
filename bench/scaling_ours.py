"""The shipped decision, and the shipped correction of its target, as rules of `bench/autoscaling.py`."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bench.engine_steps import Floats
from bench.fleet_simulation import Fleet, Observed, Scaler
from inference_operator.autoscaling.correction import QUANTILE, Between, Measured, corrected, is_enough
from inference_operator.autoscaling.decision import ScalingSample, ScalingSettings, ScalingState, decide
from inference_operator.autoscaling.target import Objective

NEVER_IDLE = 1e9


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
    _first: list[Floats] = field(default_factory=list)
    _token: list[Floats] = field(default_factory=list)
    _running: list[float] = field(default_factory=list)

    def target(self, seen: Observed) -> float:
        """The target after what is seen now."""
        self._first.append(seen.first_token)
        self._token.append(seen.token)
        self._running.append(seen.running / max(seen.ready, 1))
        first, token = np.concatenate(self._first), np.concatenate(self._token)
        if len(first):
            quantile = float(np.quantile(first, QUANTILE))
            measured = Measured(
                seconds=seen.at - self._since,
                requests=len(first),
                first_token=Between(quantile, quantile),
                token=float(np.mean(token)),
                running=float(np.mean(self._running)),
            )
            if is_enough(measured):
                self.factor = corrected(self.factor, self.computed, measured, Objective())
                self._since, self._first, self._token, self._running = seen.at, [], [], []
        return self.factor * self.computed
