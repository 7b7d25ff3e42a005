"""`python -m bench.engine_model`: the simulated engine of `bench/autoscaling.py` against real vLLM on this machine.

A tiny model runs in the engine's image on the CPU (root or Docker). Requests come with concurrencies of 1 to 16. The
model's constants are fitted to the lowest and the highest one, and checked at the three between. The simulation gets
the arrivals, prompts and answers of the real requests. The knee is the concurrency at which a token takes
`KNEE` times as long as it does for one request alone. Then requests come by chance at parts of the most that vLLM ended
in a second, and the parts of them that keep objectives are compared: both times at most so many times a lone request's.

Other programs of the machine only make requests slower. So each concurrency is measured `PASSES` times, in turn with
the others, and the fastest time counts. The command prints by how much the times of one concurrency differ. Where that
is more than an aim, the machine was too busy to tell. What needs a GPU reads "not measured".
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import nan
from statistics import fmean, median

import numpy as np

from bench.figures import Figure, at_most, parser_of, shown
from bench.fleet_simulation import EngineModel, Fleet, Replay, Workload, replay
from bench.scaling_rules import static
from e2e.engines.load_times import BATCHED_TOKENS, SEQUENCES, Timed, timed_requests

LOW, CHECKED, HIGH = 1, (2, 4, 8), 16
EVERY = (LOW, *CHECKED, HIGH)
PASSES = 3
KNEE = 1.5
STEADY = (0.4, 0.7)
"""Parts of the most requests in a second."""
OBJECTIVES = (1.5, 2.0, 3.0)
"""Times of a lone request."""
ERROR_AIM, KNEE_AIM, KEPT_AIM = 0.15, 0.30, 2.0
BISECTIONS = 16
TICK_SECONDS = 0.002
"""Far less than a step of the engine."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Medians over the requests of a round, in seconds."""

    first_token: float
    token: float


def measured(requests: Sequence[Timed]) -> Latency:
    """The latencies of real requests."""
    return Latency(median(one.first_token for one in requests), median(one.token for one in requests))


def simulated(requests: Sequence[Timed], engine: EngineModel) -> Latency:
    found = replayed(requests, engine)
    return Latency(float(np.median(found.time_to_first_token)), float(np.median(found.time_per_token)))


def replayed(requests: Sequence[Timed], engine: EngineModel) -> Replay:
    """The same requests, which come at the same times, in the simulated engine."""
    arrivals, prompts, answers = (
        np.array([float(value) for value in values])
        for values in zip(*((one.began, one.prompt, one.answer) for one in requests), strict=True)
    )
    work = Workload("measured", arrivals, prompts, answers, float(arrivals[-1]) + 1)
    fleet = Fleet(engine=engine, max_replicas=1, available=1, tick_seconds=TICK_SECONDS, decide_seconds=1.0)
    return replay(work, static(1), fleet, initial=1)


def fitted(low: Sequence[Timed], high: Sequence[Timed]) -> EngineModel:
    """The constants with which the simulation agrees with both rounds.

    One request alone gives the time of a step and that of a prompt. The other round gives what a sequence adds.
    """
    alone = measured(low)
    prompt = fmean(one.prompt for one in low)
    engine = EngineModel(
        token_seconds=alone.token,
        sequence_seconds=0.0,
        prefill_tokens_per_second=prompt / max(alone.first_token - alone.token, 1e-6),
        max_num_seqs=SEQUENCES,
        max_batched_tokens=BATCHED_TOKENS,
    )
    wanted, least, most = measured(high).token, 0.0, alone.token
    for _ in range(BISECTIONS):
        middle = (least + most) / 2
        engine = replace(engine, token_seconds=max(alone.token - middle, 0.0), sequence_seconds=middle)
        least, most = (middle, most) if simulated(high, engine).token < wanted else (least, middle)
    return engine


def knee(concurrencies: Sequence[int], tokens: Sequence[float]) -> float:
    """The concurrency at which a token takes `KNEE` times as long as at the first one; not a number if none does.

    Examples:
        >>> round(knee([1, 2, 4], [0.1, 0.12, 0.18]), 6)
        3.0
    """
    wanted = KNEE * tokens[0]
    points = list(zip(concurrencies, tokens, strict=True))
    for (low, before), (high, after) in pairwise(points):
        if before < wanted <= after:
            return low + (high - low) * (wanted - before) / (after - before)
    return nan


def figures(passes: Sequence[Sequence[Sequence[Timed]]], steady: Sequence[Sequence[Timed]] = ()) -> Iterator[Figure]:
    """The figures of some passes, each with a round for every concurrency, and of rounds at `STEADY` rates."""
    of_each = list(zip(*passes, strict=True))
    rounds = [min(times, key=lambda one: measured(one).token) for times in of_each]
    low, *checked, high = rounds
    engine = fitted(low, high)
    yield Figure("time of a step", 1000 * engine.token_seconds, "ms")
    yield Figure("time that a sequence adds", 1000 * engine.sequence_seconds, "ms")
    yield Figure("prompt tokens per second", engine.prefill_tokens_per_second, "tokens/s")
    for concurrency, requests in zip(CHECKED, checked, strict=True):
        yield from _compared(f"{concurrency} requests", measured(requests), simulated(requests, engine))
    for part, requests in zip(STEADY, steady, strict=False):
        yield from kept(f"{part:.0%} of the most requests", requests, engine, measured(low))
    real = knee(EVERY, [measured(one).token for one in rounds])
    model = knee(EVERY, [simulated(one, engine).token for one in rounds])
    yield Figure("knee, vLLM", real, "requests")
    yield Figure("knee, simulated", model, "requests")
    yield Figure("knee, error", abs(model / real - 1), "x", at_most(KNEE_AIM))
    for concurrency, times in zip(EVERY, of_each, strict=True):
        tokens = [measured(one).token for one in times]
        yield Figure(f"{concurrency} requests: slowest / fastest TPOT", max(tokens) / min(tokens), "x")
    yield Figure("C of the GPU table against the knee of a GPU", nan, "x", at_most(KNEE_AIM))


def _compared(name: str, real: Latency, model: Latency) -> Iterator[Figure]:
    for what, one, other in (
        ("TTFT", real.first_token, model.first_token),
        ("TPOT", real.token, model.token),
    ):
        yield Figure(f"{name}: {what}, vLLM", 1000 * one, "ms")
        yield Figure(f"{name}: {what}, simulated", 1000 * other, "ms")
        yield Figure(f"{name}: {what}, error", abs(other / one - 1), "x", at_most(ERROR_AIM))


def kept(name: str, requests: Sequence[Timed], engine: EngineModel, alone: Latency) -> Iterator[Figure]:
    """The parts of the requests that keep objectives."""
    found = replayed(requests, engine)
    real = np.array([(one.first_token, one.token) for one in requests])
    model = np.stack([found.time_to_first_token, found.time_per_token], axis=1)
    for times in OBJECTIVES:
        objective = times * np.array([alone.first_token, alone.token])
        one, other = (100 * float((both <= objective).all(axis=1).mean()) for both in (real, model))
        what = f"{name}, within {times:g} times a lone one's times"
        yield Figure(f"{what}: vLLM", one, "%")
        yield Figure(f"{what}: simulated", other, "%")
        yield Figure(f"{what}: difference", abs(one - other), "points", at_most(KEPT_AIM))


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the figures."""
    args = parser_of("python -m bench.engine_model", "The simulated engine against real vLLM.").parse_args(arguments)
    rounds = timed_requests(EVERY * PASSES, STEADY)
    passes = [rounds[start : start + len(EVERY)] for start in range(0, PASSES * len(EVERY), len(EVERY))]
    print(shown(list(figures(passes, rounds[PASSES * len(EVERY) :])), args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
