"""Corrects the target concurrency C by measured latencies.

The aim is the part of the requests that a lone request would keep, less a margin: `MARGIN` of what the objective's
percentile permits. A prompt that alone takes longer than the objective misses it on any number of engines, so it counts
neither for nor against C.

Misses beyond those of lone requests grow with a power of C, which is at least `ELASTICITY` near the aim. So the step

    log C += log(permitted / missed) / ELASTICITY x weight,    weight = evidence / (evidence + EVIDENCE)

leads to the aim without oscillation; evidence is the number of misses, permitted or seen, whichever is more. Few
requests say little: their window goes on until it warrants a fall by `LEAST_STEP`, or a growth by `GROWTH`. After a
step, the window begins when the engines are there, or gone, that it asked for.

The factor grows until an objective breaks, or until `max_num_seqs` or the KV cache allow no more; and only while more
engines run than the fewest or all are full, as otherwise C decides nothing. For `CEILING_SECONDS` after a fall it stays
`LEAST_STEP` below where it fell from: near the knee of an engine, few requests more make all late. It belongs to one
plan.
"""

from dataclasses import dataclass
from math import exp, inf, log

from inference_operator.autoscaling.target import MARGIN

STEP_REQUESTS = 200
STEP_SECONDS = 60.0
LEAST_STEP, MOST_STEP = 1.1, 1.5
"""Of one fall. Each step changes the number of engines, and is written into the status."""
GROWTH = 1.2
"""The one step up: the way up may lead over the knee, and eight of them are four times C."""
CEILING_SECONDS = 3600.0
ELASTICITY = 3.0
"""Power of C with which misses grow. Simulated engines have 1.4 far below the aim and 3 near the knee; a power that is
too large makes steps smaller."""
EVIDENCE = 10.0
"""Misses with which a window has half of its weight: their number has a deviation of a third then."""
WINDOW_SECONDS = 1800.0
"""A window that warrants no step in this time is forgotten: the load may have changed."""


@dataclass(frozen=True, slots=True)
class LatencySample:
    seconds: float
    requests: float
    ttft: float
    """Part of the requests whose time to first token kept its objective, without the router's queue: 0 to 1."""
    tpot: float
    """Part of the requests whose mean time of each output token kept its objective: 0 to 1."""
    attainable: float = 1.0
    """Part of the requests that would keep it alone in an engine: 0 to 1."""
    ceiling: float = inf
    """Factor from which the target fell last, if that is not long ago."""

    @property
    def kept(self) -> float:
        """Part of the requests that kept both: long prompts miss the one and short answers the other."""
        return max(0.0, self.ttft + self.tpot - 1)


def next_factor(
    factor: float, measured: LatencySample, *, permitted: float, least: float = 0.0, most: float = inf
) -> float:
    """The new factor of the computed C; the former one if a step may not or need not be taken.

    Args:
        permitted: the part of the requests that may miss the objective, 0 to 1.
    """
    if not is_enough(measured):
        return factor
    aim = MARGIN * permitted * measured.requests
    missed = max(0.0, measured.attainable - measured.kept) * measured.requests
    weight = max(aim, missed) / (max(aim, missed) + EVIDENCE)
    step = exp(weight * log((aim + 0.5) / (missed + 0.5)) / ELASTICITY)
    if step <= 1 / LEAST_STEP:
        return min(factor, max(factor * max(step, 1 / MOST_STEP), least))
    if step >= GROWTH:
        return max(factor, min(factor * GROWTH, most, measured.ceiling / LEAST_STEP))
    return factor


def is_enough(measured: LatencySample) -> bool:
    return measured.requests >= STEP_REQUESTS and measured.seconds >= STEP_SECONDS


def is_old(measured: LatencySample) -> bool:
    return measured.seconds >= WINDOW_SECONDS
