"""The ratio of engines for prompts and for answers that `infd fit` computes, against a simulator with two roles.

The simulation is that of `bench/autoscaling.py`, once for each role: what engines for prompts have computed comes to
those that answer, after the way of its KV cache, and is cached there. For each role the highest rate is looked for with
which requests keep an objective, while the other role has more engines than it needs. The ratio of both rates is how
many engines for prompts each one that answers needs.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

import numpy as np

from bench.engine_steps import Floats
from bench.figures import Figure, at_least, at_most
from bench.fleet_simulation import EngineModel, Fleet, Replay, Workload, replay
from bench.scaling_rules import static
from bench.serving_model import CAPACITY_SECONDS, CAPACITY_SEEDS, SIMULATED, highest_rate, serving_of, workload
from inference_operator.api.disaggregation import PREFILL_BATCHED_TOKENS, PREFILL_SEQUENCES
from inference_operator.sizing.disaggregation import LEG_SECONDS, KVPath, carried_apart
from inference_operator.sizing.serving import Load
from inference_operator.sizing.shape import Objective

LOADS = [Load(4000.0, 300.0), Load(8000.0, 400.0)]
OBJECTIVE = Objective(percentile=99, ttft=10.0)
NETWORK = KVPath(token_bytes=147_456, gigabits=100)
"""Of 36 layers with 8 heads of 128 in 16 bits, as Qwen3-8B has them."""
ENGINES, AMPLE = 4, 3
"""Engines of the role whose rate is looked for, and times as many as needed of the other one."""
RATIO_AIM, KEPT_AIM = at_most(0.25), at_least(98.0)
"""Engines behind a router have one queue, and the model gives each its own: the longer prompts take beside the
objective, the more engines for them it asks for."""


def figures() -> Iterator[Figure]:
    """The figures of all engines and loads."""
    for name, engine in SIMULATED.items():
        for load in LOADS:
            yield from _compared(f"{name} engine, {load.prompt:.0f} + {load.answer:.0f} tokens", engine, load)


def _compared(name: str, engine: EngineModel, load: Load) -> Iterator[Figure]:
    found = carried_apart(serving_of(of_prompts(engine)), serving_of(engine), load, OBJECTIVE, NETWORK)
    if found is None:
        return
    computed, answered, _ = found
    ratio = answered / computed
    prompts = _highest(engine, load, ENGINES * computed, (ENGINES, ceil(AMPLE * ENGINES / ratio)))
    answers = _highest(engine, load, ENGINES * answered, (ceil(AMPLE * ENGINES * ratio), ENGINES))
    for role, fit, simulated in (("prompts", computed, prompts), ("answers", answered, answers)):
        yield Figure(f"{name}: {role} of one engine, fit", fit, "/s")
        yield Figure(f"{name}: the same, simulated", simulated / ENGINES, "/s")
    yield Figure(f"{name}: engines for prompts for each that answers, fit", ratio, "")
    yield Figure(f"{name}: the same, simulated", answers / prompts, "")
    yield Figure(f"{name}: error of the ratio", abs(ratio / (answers / prompts) - 1), "", RATIO_AIM)
    rate = ENGINES * answered
    kept = min(kept_parts(engine, load, rate, (ceil(rate / computed), ENGINES)))
    yield Figure(f"{name}: requests that keep each objective with fit's engines", 100 * kept, "%", KEPT_AIM)


def _highest(engine: EngineModel, load: Load, expected: float, engines: tuple[int, int]) -> float:
    """The highest rate with which requests keep the objective, with so many engines for prompts and for answers."""
    kept = OBJECTIVE.percentile / 100
    return highest_rate(expected, lambda rate: min(kept_parts(engine, load, rate, engines)) >= kept)


def kept_parts(engine: EngineModel, load: Load, rate: float, engines: tuple[int, int]) -> tuple[float, float]:
    """The parts of the requests whose first token, and whose further ones, are in time."""
    works = [workload(load, rate, seed, CAPACITY_SECONDS) for seed in range(CAPACITY_SEEDS)]
    first, token = (
        np.concatenate(times) for times in zip(*(replayed_apart(engine, work, engines) for work in works), strict=True)
    )
    return float((first <= OBJECTIVE.ttft).mean()), float((token <= OBJECTIVE.tpot).mean())


def replayed_apart(engine: EngineModel, work: Workload, engines: tuple[int, int]) -> tuple[Floats, Floats]:
    """Seconds to the first token of each request, and for each further one; infinite where there is no answer."""
    one_token = replace(work, outputs=np.ones(len(work.arrivals)))
    computed = _replayed(of_prompts(engine), one_token, engines[0]).time_to_first_token
    way = computed + LEG_SECONDS + work.prompts * NETWORK.seconds(1)
    order = np.argsort(work.arrivals + way)
    order = order[np.isfinite(way[order])]
    prompts = work.prompts[order]
    sent = replace(
        work, arrivals=(work.arrivals + way)[order], prompts=prompts, outputs=work.outputs[order], cached=prompts
    )
    answered = _replayed(engine, sent, engines[1])
    first, token = np.full(len(way), np.inf), np.full(len(way), np.inf)
    first[order], token[order] = way[order] + answered.time_to_first_token, answered.time_per_token
    return first, token


def of_prompts(engine: EngineModel) -> EngineModel:
    """The same engine with the batches of engines for prompts."""
    sequences, tokens = PREFILL_SEQUENCES, PREFILL_BATCHED_TOKENS
    return replace(engine, max_num_seqs=sequences, max_batched_tokens=tokens, decodes=False)


def _replayed(engine: EngineModel, work: Workload, engines: int) -> Replay:
    limits = {"max_replicas": engines, "available": engines, "router_limit": engine.max_num_seqs}
    fleet = Fleet(engine, start_seconds=1.0, tick_seconds=0.02, queue_size=len(work.arrivals) + 1, **limits)
    return replay(work, static(engines), fleet, initial=engines)
