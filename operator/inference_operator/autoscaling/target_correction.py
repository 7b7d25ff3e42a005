"""Corrects the target concurrency C by measured latencies.

A step multiplies or divides the factor of C by `STEP`, after at least `STEP_REQUESTS` requests and `STEP_SECONDS`:

- Down, if the mean time of a token with C requests in each engine surely breaks its objective.
- Down, if surely less than the objective's percentile of the requests kept it, while engines had at most C requests.
- Up, if the mean time of a token with C requests in each engine surely keeps `ROOM` of its objective, and surely more
  than that kept both objectives: of those that may miss one, a part of `CLEARLY_FEWER`. Not within `HOLD_SECONDS` after
  a step down.

Engines rarely have exactly C requests. Latencies grow with the requests, and at most in proportion to them. So those of
half of C are at most doubled, and those of twice C are at least halved. This holds for means. For parts of the requests
nothing of the kind holds, so they are taken as they are. Engines that have less than `LEAST_LOAD` of C say too little.

The factor is never below 1 / `MOST`. It grows until an objective breaks, or until `max_num_seqs` or the KV cache allow
no more. It belongs to one plan: another plan starts with 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from inference_operator.sizing.shape import Objective

STEP = 1.1
STEP_REQUESTS = 200
"""With 200 requests, ten may break an objective of 95 %."""
STEP_SECONDS = 60.0
MOST = 4.0
"""By this factor C may fall: a C that is wrong by more has another cause than the model of a step's time."""

ROOM = 0.9
"""Less than 1 / `STEP`, so that a step up breaks no objective, as latencies grow at most as fast as C."""
CLEARLY_FEWER = 0.1
"""C may grow if less than this part of the requests that may break an objective do."""
HOLD_SECONDS = 1800.0
"""C does not grow for this long after it fell: else it would break the objectives again and again to find the limit.
`python -m bench.autoscaling --wrong` compares what a right C loses."""
LEAST_LOAD = 0.5
"""The part of C that engines must have in the mean, so that C may grow."""


class Bounds(NamedTuple):
    """Lower and upper bound of the part of the requests that kept an objective: it lies within a histogram's bucket."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class LatencySample:
    """Latencies that engines measured since the last step."""

    seconds: float
    requests: float
    """Finished requests."""
    ttft: Bounds
    """Part of the requests whose time to first token kept its objective, without the router's queue: 0 to 1."""
    tpot: Bounds
    """Part of the requests whose mean time of each output token kept its objective: 0 to 1."""
    tpot_seconds: float
    """Mean time of each output token, in seconds."""
    running: float
    """Mean number of requests that run in one engine while it has any."""
    since_lowered: float = inf
    """Seconds since the last step down."""


def next_factor(
    factor: float, computed: float, measured: LatencySample, objective: Objective, *, most: float = inf
) -> float:
    """The new factor of the computed C; the former one if a step may not or need not be taken.

    Args:
        factor: the present factor; 1 at first.
        measured: latencies since the last step. The caller starts a new window if `is_enough(measured)`.
        most: the largest factor that has an effect.
    """
    if not is_enough(measured):
        return factor
    load = measured.running / (factor * computed)
    if load <= 0:
        return factor
    tpot = measured.tpot_seconds / objective.tpot
    attained = min(measured.ttft.most, measured.tpot.most)
    if tpot / max(1.0, load) > 1 or (attained < objective.percentile / 100 and load <= 1):
        factor /= STEP
    elif _may_grow(measured, tpot / min(1.0, load), load, objective):
        factor *= STEP
    return min(max(factor, 1 / MOST), most)


def _may_grow(measured: LatencySample, tpot: float, load: float, objective: Objective) -> bool:
    attained = min(measured.ttft.least, measured.tpot.least)
    is_fast = tpot < ROOM and 1 - attained < CLEARLY_FEWER * (1 - objective.percentile / 100)
    return is_fast and load >= LEAST_LOAD and measured.since_lowered >= HOLD_SECONDS


def is_enough(measured: LatencySample) -> bool:
    return measured.requests >= STEP_REQUESTS and measured.seconds >= STEP_SECONDS


def part_within(bounds: Sequence[float], counts: Sequence[float], limit: float) -> Bounds | None:
    """The part of the observations of a Prometheus histogram that are at most `limit`; None without observations.

    Args:
        bounds: upper bounds of the buckets, ascending; the last one may be infinite.
        counts: cumulative counts of the same buckets, or their increases.
        limit: in the unit of the bounds.

    Examples:
        >>> part_within([1.0, 2.5, float("inf")], [90, 99, 100], 2.0)
        Bounds(least=0.9, most=0.99)
        >>> part_within([1.0, 2.5, float("inf")], [90, 99, 100], 1.0)
        Bounds(least=0.9, most=0.9)
        >>> part_within([0.1, float("inf")], [0, 0], 1.0) is None
        True
    """
    if not counts or counts[-1] <= 0:
        return None
    below = [count for bound, count in zip(bounds, counts, strict=True) if bound <= limit]
    above = [count for bound, count in zip(bounds, counts, strict=True) if bound >= limit]
    return Bounds(below[-1] / counts[-1] if below else 0.0, above[0] / counts[-1] if above else 1.0)
