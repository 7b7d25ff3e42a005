"""Corrects the target concurrency C by measured latencies.

A step multiplies or divides the factor of C by `STEP`, after at least `STEP_REQUESTS` requests and `STEP_SECONDS`:

- Down, if a latency with C requests in each engine surely breaks its objective.
- Up, if both latencies with C requests in each engine surely keep `ROOM` of their objectives.

Engines rarely have exactly C requests. Latencies grow with the requests, and at most in proportion to them. So those of
half of C are at most doubled, and those of twice C are at least halved. The time to first token also grows with the
queue of an engine that has more than C; then it says nothing about C.

The factor stays between 1 / `MOST` and `MOST`. It belongs to one plan: another plan starts with 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from inference_operator.autoscaling.target import Objective

STEP = 1.1
STEP_REQUESTS = 200
"""With 200 requests, ten lie above the 95th percentile."""
STEP_SECONDS = 60.0
MOST = 4.0

ROOM = 0.9
"""Less than 1 / `STEP`, so that a step up breaks no objective, as latencies grow at most as fast as C."""

QUANTILE = 0.95
"""The part of the requests that shall meet the objective of the first token."""


class Between(NamedTuple):
    """What a histogram tells of a quantile: the bounds of its bucket. Interpolated, it can be off by most of it."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What engines measured since the last step."""

    seconds: float
    requests: float
    """Finished requests."""
    first_token: Between
    """95th percentile of the time to first token, without the router's queue, in seconds."""
    token: float
    """Mean time of each output token, in seconds. Its objective is a mean too, as that of the computed C: buckets are
    too wide for a percentile."""
    running: float
    """Mean number of requests that run in one engine while it has any."""


def corrected(factor: float, computed: float, measured: Measured, objective: Objective, *, most: float = MOST) -> float:
    """The new factor of the computed C; the former one if nothing is to be learned.

    Args:
        factor: the present factor; 1 at first.
        computed: C without correction.
        measured: latencies since the last step. The caller starts anew if `is_enough(measured)`.
        objective: the latencies that requests shall have.
        most: the largest factor that has an effect.

    Examples:
        >>> slow = Measured(60, 500, first_token=Between(0.4, 0.5), token=0.08, running=30)
        >>> round(corrected(1.0, 32, slow, Objective()), 3)
        0.909
    """
    if not is_enough(measured):
        return factor
    load = measured.running / (factor * computed)
    first_token, token = measured.first_token, measured.token / objective.token
    if load <= 0:
        return factor
    if token / max(1.0, load) > 1 or (first_token.least > objective.first_token and load <= 1):
        factor /= STEP
    elif max(first_token.most / objective.first_token, token) / min(1.0, load) < ROOM:
        factor *= STEP
    return min(max(factor, 1 / MOST), MOST, most)


def is_enough(measured: Measured) -> bool:
    """Whether a step may be taken."""
    return measured.requests >= STEP_REQUESTS and measured.seconds >= STEP_SECONDS


def quantile(bounds: Sequence[float], counts: Sequence[float], part: float = QUANTILE) -> Between | None:
    """The bucket of a Prometheus histogram that has a quantile; None without observations.

    Args:
        bounds: upper bounds of the buckets, ascending; the last one may be infinite.
        counts: cumulative counts of the same buckets, or their increases.
        part: between 0 and 1.

    Examples:
        >>> quantile([0.025, 0.05, 0.1, float("inf")], [0, 90, 100, 100])
        Between(least=0.05, most=0.1)
        >>> quantile([0.1, float("inf")], [0, 0]) is None
        True
    """
    if not counts or counts[-1] <= 0:
        return None
    rank, low = part * counts[-1], 0.0
    for bound, count in zip(bounds, counts, strict=True):
        if count >= rank:
            return Between(low, bound)
        low = bound
    return Between(low, float("inf"))
