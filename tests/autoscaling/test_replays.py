"""The shipped decision in the simulation of `bench/autoscaling.py`, beside rules of others."""

import json
from dataclasses import replace
from functools import partial
from math import inf, isnan
from pathlib import Path

import numpy as np
import pytest

from bench.autoscaling import (
    OURS,
    Scenario,
    curves_of,
    figures_of,
    initial_replicas,
    main,
    means,
    scarce,
    wrong_targets,
)
from bench.figures import json_of
from bench.fleet_simulation import EngineModel, Fleet, Replay, Workload, replay
from bench.scaling_curves import Point, best_at, hours_at, paired_ratio, plotted
from bench.scaling_ours import ours
from bench.scaling_queries import rendered_hpa, rendered_keda
from bench.scaling_rules import lite, static
from bench.shipped import ratio_to_rivals
from bench.traces import Format, day, flash, read

FLEET = Fleet(start_seconds=120, max_replicas=24, available=24)
STEADY = Scenario("day", partial(day, seconds=3600.0), 32.0, FLEET, bursts=False)
STEEP = Scenario("day", partial(day, seconds=1800.0), 32.0, FLEET, bursts=False)
SHORT = Scenario("flash", partial(flash, step_seconds=300.0), 32.0, FLEET, bursts=True)


def test_one_request_takes_the_time_of_its_prompt_and_its_tokens() -> None:
    engine = EngineModel()
    work = Workload("one", np.array([0.0]), np.array([1600.0]), np.array([101.0]), 60.0)
    found = replay(work, static(1), replace(FLEET, engine=engine), initial=1)
    assert found.time_to_first_token[0] == pytest.approx(engine.token_seconds + 1600 / engine.prefill_tokens_per_second)
    assert found.time_per_token[0] == pytest.approx(engine.token_seconds + engine.sequence_seconds)


def test_refused_and_timed_out_requests_miss_their_objectives() -> None:
    work = Workload("many", np.zeros(3000), np.full(3000, 100.0), np.full(3000, 2000.0), 10.0)
    found = replay(work, static(1), replace(FLEET, queue_seconds=5.0), initial=1)
    assert np.isinf(found.time_to_first_token).sum() == 3000 - FLEET.router_limit
    assert found.attained() <= 100 * FLEET.router_limit / 3000


def test_steps_at_once_are_the_same_as_one_after_the_other() -> None:
    """With a tick shorter than a step, an engine begins no two steps in one tick."""
    lengths = np.random.default_rng(0).integers(1, 300, (2, 60)).astype(float)
    work = Workload("at once", np.zeros(60), 20 * lengths[0], lengths[1], 10.0)
    found = [replay(work, static(2), replace(FLEET, tick_seconds=tick), initial=2) for tick in (0.1, 0.01)]
    for times in ("time_to_first_token", "time_per_token"):
        np.testing.assert_allclose(getattr(found[0], times), getattr(found[1], times), rtol=1e-9)


def test_a_replay_with_the_same_seed_gives_the_same_result() -> None:
    work = SHORT.workload(1)
    found = [replay(work, ours(32, FLEET), FLEET, initial=1, seed=1) for _ in range(2)]
    assert (found[0].gpu_hours, found[0].changes) == (found[1].gpu_hours, found[1].changes)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["nosuch"], "there is no rule nosuch; there are: "),
        ([OURS], f"name '{OURS}', and at least one of "),
        (["KEDA outstanding"], f"name '{OURS}', and at least one of "),
    ],
)
def test_rules_that_cannot_be_compared_are_refused_with_those_that_can(
    asked: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--generated", "flash", "--seeds", "1", "--rules", *asked]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: --rules: {said}")
    assert "'Knative KPA'" in message


@pytest.mark.full  # over a minute of CPU
def test_bursts_need_fewer_gpu_hours_than_the_best_rule_on_outstanding_requests() -> None:
    curves = curves_of(SHORT, 1, only=(OURS, "KEDA outstanding", "Knative KPA"))
    mean = means(curves)
    own = next(one for one in mean.pop(OURS) if one.target == 1)
    assert own.gpu_hours < 0.8 * best_at(mean, own.slo)[1]


def test_when_gpus_run_out_no_more_engines_exist_than_gpus() -> None:
    few = scarce(SHORT)
    assert few.fleet.available < FLEET.available
    work = few.workload(0)
    assert replay(work, ours(32, few.fleet), few.fleet, initial=1).peak <= few.fleet.available


def test_a_level_that_no_target_reaches_is_unreached_and_not_extrapolated() -> None:
    curve = [Point(1, 98.0, 10, 0, 0), Point(2, 99.0, 20, 0, 0)]
    assert hours_at(curve, 99.5) == inf
    assert best_at({"rule": curve}, 99.5) == ("", inf)
    assert "a rule" in plotted({"rule": curve})
    curves = {OURS: [curve], "rule": [curve], "clairvoyant": [[Point(1, 100, 5, 0, 0)]]}
    figures = list(figures_of(SHORT, {**curves, OURS: [[Point(1, 90, 5, 0, 0)]]}))
    assert any("unreached" in one.name for one in figures)
    assert all({"name", "value", "unit", "aim"} == set(one) for one in json.loads(json_of(figures)))


def test_a_paired_ratio_has_an_interval_that_is_zero_for_equal_ratios() -> None:
    own, other = [Point(1, 99, 5, 0, 0)], [Point(1, 99, 10, 0, 0)]
    assert paired_ratio([own] * 5, [other] * 5, 98.0) == (0.5, 0.0)


def test_the_ratio_to_rivals_is_of_the_seeds_in_which_one_keeps_as_much_each_with_its_best() -> None:
    def kept(percent: int, hours: float) -> Replay:
        return Replay(np.array([1.0] * percent + [inf] * (100 - percent)), np.zeros(100), hours, 0, 1)

    own = [kept(90, 6), kept(90, 6), kept(95, 6)]
    cheap, dear = [kept(90, 5), kept(80, 1), kept(94, 5)], [kept(90, 8), kept(90, 8), kept(94, 5)]
    found = ratio_to_rivals(SHORT, own, {"KubeAI": [cheap], "HPA": [dear, dear]})
    assert found.value == pytest.approx((6 / 5 + 6 / 8) / 2)
    assert found.name.endswith("(KubeAI, HPA; 2 of 3 seeds)")
    none = ratio_to_rivals(SHORT, own[2:], {"HPA": [dear[2:]]})
    assert isnan(none.value)
    assert none.name.endswith("(none keeps as much; 0 of 1 seeds)")


def test_each_format_of_traces_gives_requests_in_order(tmp_path: Path) -> None:
    (tmp_path / "azure.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
    )
    (tmp_path / "x_rate_10min.csv").write_text(
        "t_s,rate_rps,active_clients,rate_weighted_cv\n0,2.0,3,1.1\n600,4.0,3,1.1\n"
    )
    (tmp_path / "x_token_quantiles.csv").write_text("pct,input_tokens,output_tokens\n0,10,5\n100,1000,500\n")
    (tmp_path / "mooncake.jsonl").write_text(
        '{"timestamp": 0, "input_length": 6758, "output_length": 500}\n'
        '{"timestamp": 3000, "input_length": 7322, "output_length": 490}\n'
    )
    azure = read(tmp_path / "azure.csv", Format.AZURE, seed=0)
    assert azure.arrivals.tolist() == pytest.approx([0, 4.314579], abs=1e-5)
    assert (azure.prompts.tolist(), azure.outputs.tolist()) == ([374, 396], [44, 109])
    servegen = read(tmp_path / "x_rate_10min.csv", Format.SERVEGEN, seed=0)
    assert servegen.seconds == 1200
    assert 3000 < len(servegen.arrivals) < 4200
    assert (np.diff(servegen.arrivals) >= 0).all()
    mooncake = read(tmp_path / "mooncake.jsonl", Format.MOONCAKE, seed=0)
    assert mooncake.arrivals.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("form", "text", "words"),
    [
        (Format.AZURE, "TIME,ContextTokens\n", "no column TIMESTAMP, GeneratedTokens; it has TIME, ContextTokens"),
        (Format.AZURE, "TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,2\n", "line 2: "),
        (Format.AZURE, "TIMESTAMP,ContextTokens,GeneratedTokens\n", "no request between 0 s and"),
        (Format.SERVEGEN, "t_s,rate_rps\n0,1\n600,2\n", "cannot be read: No such file"),
        (Format.SERVEGEN, "t_s,rate_rps\n0,1\n600,nan\n", "line 3: rate_rps is nan"),
        (Format.MOONCAKE, '{"timestamp": 1}\n', "line 1: has no 'input_length'"),
        (Format.MOONCAKE, "no JSON\n", "line 1: Expecting value"),
    ],
)
def test_a_bad_trace_file_ends_the_bench_with_the_file_the_place_and_the_reason(
    form: Format, text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a_rate_10min"
    path.write_text(text)
    assert main([f"--trace={path}", f"--format={form}"]) == 2
    assert words in capsys.readouterr().err


def test_the_rendered_objects_need_at_most_a_tenth_more_gpu_hours_than_their_law_on_steady_load() -> None:
    work = STEADY.workload(0)
    initial = initial_replicas(STEADY, work)
    law, hpa, by_keda = (
        replay(work, scaler, FLEET, initial=initial)
        for scaler in (lite(32), rendered_hpa(32, FLEET.max_replicas), rendered_keda(32, FLEET.max_replicas))
    )
    assert max(hpa.gpu_hours, by_keda.gpu_hours) <= 1.1 * law.gpu_hours
    assert min(hpa.attained(), by_keda.attained()) > law.attained() - 0.5


def test_a_target_that_is_four_times_wrong_costs_less_with_the_correction() -> None:
    found = {one.name: one.value for one in wrong_targets(STEEP, 1)}
    assert found["day: C x 4, corrected, SLO"] > found["day: C x 4, fixed, SLO"]
    assert found["day: C x 0.25, corrected, GPU-hours"] < found["day: C x 0.25, fixed, GPU-hours"]


@pytest.mark.full
def test_on_a_day_no_rival_needs_clearly_fewer_gpu_hours_at_three_nines() -> None:
    """About two minutes."""
    fleet = Fleet(start_seconds=120)
    scenario = Scenario("day", day, 32.0, fleet, bursts=False)
    assert initial_replicas(scenario, day(0)) >= 1
    mean = means(curves_of(scenario, 1))
    own = hours_at(mean.pop(OURS), 99.9)
    rivals = {name: curve for name, curve in mean.items() if name not in {"clairvoyant", "static"}}
    assert own <= 1.1 * best_at(rivals, 99.9)[1]
