"""The latencies of `sizing/serving.py` against simulated engines: `python -m bench.serving_model`.

Some engines of the simulation of `bench/autoscaling.py` serve requests with Poisson arrivals, whose prompts and answers
have exponentially distributed lengths. The rate is the one with which the model expects the computed target of
requests in each engine.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from bench.figures import Figure, at_least, at_most, parser_of, shown
from bench.fleet_simulation import EngineModel, Fleet, Replay, Workload, replay
from bench.scaling_rules import static
from inference_operator.api.autoscaling import PERCENTILE
from inference_operator.sizing.serving import Load, Served, Serving
from inference_operator.sizing.shape import Objective
from inference_operator.sizing.steptime import StepCosts

LOADS = {
    "conversations": Load(1155, 211),
    "code": Load(2048, 28),
    "long answers": Load(200, 400),
    "long prompts": Load(6000, 300),
}
"""The first two have the means of Azure's traces of 2023."""
SIMULATED = {
    "slow": EngineModel(),
    "fast": EngineModel(0.006, 0.00003, 64_000.0, 2e6, 1024, 8192),
    "experts": EngineModel(0.004, 0.00002, 60_000.0, 2e6, 1024, 8192, experts_seconds=0.03, expert_share=1 / 32),
}
"""The second has about the constants of a small model on an H100, and its batches; the third those of 235B on four, of
which a token uses 8 of 128 experts."""
CAPACITIES = [Load(prompt, answer) for prompt in (500.0, 1732.0) for answer in (10.0, 20.0, 50.0, 316.0)]
CAPACITY_SECONDS, CAPACITY_SEEDS, HALVINGS = 300, 2, 8
ENGINES = 4
SECONDS = 1200
CAPACITY_AIM = at_most(0.15)
MEAN_AIM, LATE_AIM, KEPT_AIM = at_most(0.1), at_most(0.15), at_least(2 * PERCENTILE - 100)
"""Requests may miss each of the two objectives up to the percentile."""


def costs_of(engine: EngineModel) -> StepCosts:
    """The costs of a simulated engine's step."""
    prompt_token = 1 / engine.prefill_tokens_per_second
    return StepCosts(
        dense=0.0,
        cached_token=0.0,
        token=0.0,
        fixed=engine.token_seconds,
        exchange=prompt_token,
        sequence=engine.sequence_seconds - prompt_token,
        experts=engine.experts_seconds,
        expert_share=engine.expert_share,
        decodes=engine.decodes,
    )


def serving_of(engine: EngineModel) -> Serving:
    """The model of a simulated engine."""
    return Serving(costs_of(engine), engine.max_num_seqs, engine.max_batched_tokens, engine.kv_tokens)


def workload(load: Load, rate: float, seed: int = 0, seconds: int = SECONDS) -> Workload:
    """Requests of a load at a steady rate."""
    chance = np.random.default_rng(seed)
    number = int(rate * seconds)
    arrivals = np.sort(chance.uniform(0, seconds, number))
    prompts, answers = (np.ceil(chance.exponential(mean, number)) for mean in (load.prompt, load.answer))
    return Workload("steady", arrivals, prompts, answers, float(seconds))


def figures() -> Iterator[Figure]:
    """The figures of all loads."""
    fleet = Fleet(start_seconds=1.0)
    for name, load in LOADS.items():
        expected: Served = serving_of(fleet.engine).best(load, Objective())[0]
        found = replay(workload(load, ENGINES * expected.requests), static(ENGINES), fleet, initial=ENGINES)
        mean = float(np.mean(found.time_per_token))
        late = float(np.percentile(found.time_per_token, PERCENTILE))
        late_error = abs(expected.tpot_of(PERCENTILE) / late - 1)
        first = float(np.percentile(found.time_to_first_token, PERCENTILE))
        yield Figure(f"{name}: computed target", expected.concurrency, "requests")
        yield Figure(f"{name}: mean TPOT, error", abs(expected.tpot / mean - 1), "", MEAN_AIM)
        yield Figure(f"{name}: 95th percentile of TPOT, error", late_error, "", LATE_AIM)
        yield Figure(f"{name}: 95th percentile of TTFT, model", expected.ttft_of(PERCENTILE), "s")
        yield Figure(f"{name}: 95th percentile of TTFT, simulated", first, "s")
        yield Figure(f"{name}: requests within both objectives", found.attained(), "%", KEPT_AIM)


def capacities() -> Iterator[Figure]:
    """The rates of requests of which the percentile keeps each attainable objective, of the model and simulated."""
    for name, engine in SIMULATED.items():
        for load in CAPACITIES:
            model = serving_of(engine)
            aim = model.attainable(load, Objective())
            expected = model.best(load, aim)[0].requests
            highest = highest_rate(expected, partial(keeps, engine, load, aim=aim))
            label = f"{name} engine, {load.prompt:.0f} + {load.answer:.0f} tokens"
            yield Figure(f"{label}: capacity", expected, "/s")
            yield Figure(f"{label}: error", abs(expected / highest - 1), "", CAPACITY_AIM)


def highest_rate(expected: float, is_kept: Callable[[float], bool]) -> float:
    """The highest rate, from a third of the expected one to three times it, that keeps an objective."""
    low, high = expected / 3, expected * 3
    for _ in range(HALVINGS):
        rate = float(np.sqrt(low * high))
        low, high = (rate, high) if is_kept(rate) else (low, rate)
    return low


def keeps(engine: EngineModel, load: Load, rate: float, aim: Objective) -> bool:
    """Whether simulated engines behind a router keep an objective, each at a rate."""
    fleet = Fleet(engine, start_seconds=1.0, router_limit=engine.max_num_seqs, tick_seconds=0.02)
    works = [workload(load, ENGINES * rate, seed, CAPACITY_SECONDS) for seed in range(CAPACITY_SEEDS)]
    found: list[Replay] = [replay(work, static(ENGINES), fleet, initial=ENGINES) for work in works]
    first = np.concatenate([one.time_to_first_token for one in found])
    token = np.concatenate([one.time_per_token for one in found])
    least = aim.percentile / 100
    return float((first <= aim.ttft).mean()) >= least and float((token <= aim.tpot).mean()) >= least


def main(arguments: Sequence[str]) -> int:
    """Simulate, and print the figures."""
    parser = parser_of("python -m bench.serving_model", "The model of latencies against simulated engines.")
    print(shown([*figures(), *capacities()], parser.parse_args(arguments).output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
