"""The fit and the comparison of `bench/engine_model.py`, on times that the simulated engine itself has made."""

from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from bench.engine_model import (
    CHECKED,
    EVERY,
    HIGH,
    KEPT_AIM,
    LOW,
    OBJECTIVES,
    TICK_SECONDS,
    figures,
    fitted,
    kept,
    knee,
    measured,
)
from bench.fleet_simulation import EngineModel, Fleet, Workload, replay
from bench.scaling_rules import static
from e2e.engines.load_times import ANSWERS, BATCHED_TOKENS, PROMPTS, SEQUENCES, Timed, job

REAL = EngineModel(
    token_seconds=0.02,
    sequence_seconds=0.003,
    prefill_tokens_per_second=900.0,
    max_num_seqs=SEQUENCES,
    max_batched_tokens=BATCHED_TOKENS,
)


def a_round(concurrency: int) -> list[Timed]:
    """Requests that come in groups, and the times that the engine gives them."""
    random = np.random.default_rng(concurrency)
    count = 6 * concurrency
    arrivals = np.repeat(np.arange(6) * 8.0, concurrency) + 0.01 * random.random(count)
    prompts, answers = (random.integers(*limits, count).astype(float) for limits in (PROMPTS, ANSWERS))
    work = Workload("made", np.sort(arrivals), prompts, answers, 50.0)
    fleet = Fleet(engine=REAL, max_replicas=1, available=1, tick_seconds=TICK_SECONDS, decide_seconds=1.0)
    found = replay(work, static(1), fleet, initial=1)
    times = zip(work.arrivals, found.time_to_first_token, found.time_per_token, prompts, answers, strict=True)
    return [Timed(float(a), float(f), float(t), int(p), int(n)) for a, f, t, p, n in times]


def test_the_fit_finds_the_constants_of_an_engine() -> None:
    engine = fitted(a_round(LOW), a_round(HIGH))
    assert engine.token_seconds == pytest.approx(REAL.token_seconds, rel=0.1)
    assert engine.sequence_seconds == pytest.approx(REAL.sequence_seconds, rel=0.1)
    assert engine.prefill_tokens_per_second == pytest.approx(REAL.prefill_tokens_per_second, rel=0.1)


def test_every_error_is_within_its_aim_for_an_engine_that_is_as_the_model_says() -> None:
    found = {one.name: one for one in figures([[a_round(one) for one in EVERY]] * 2)}
    aims = [one for one in found.values() if one.aim and "GPU" not in one.name]
    assert len(aims) == 2 * len(CHECKED) + 1
    assert all(one.aim and one.aim.met_by(one.value) for one in aims), aims
    assert found["16 requests: slowest / fastest TPOT"].value == 1


def test_a_slower_engine_keeps_fewer_requests_of_the_same_lengths_and_the_same_one_as_many() -> None:
    requests, alone = a_round(4), measured(a_round(LOW))
    same, slower = (
        [one.value for one in kept("steady", requests, engine, alone) if one.aim]
        for engine in (REAL, replace(REAL, token_seconds=2 * REAL.token_seconds))
    )
    assert same == [0] * len(OBJECTIVES)
    assert max(slower) > KEPT_AIM


def test_the_measured_engine_has_the_limits_of_the_simulated_one() -> None:
    command = job(EVERY, ())["command"]
    assert {f"--max-num-batched-tokens={BATCHED_TOKENS}", f"--max-num-seqs={SEQUENCES}"} <= set(command)


def test_a_knee_that_no_concurrency_reaches_is_not_a_number() -> None:
    assert isnan(knee([1, 2, 4], [0.1, 0.1, 0.14]))
