"""The model of a step's time: its properties, its measured shares, and the orders that it must get right."""

from dataclasses import replace
from math import isfinite
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.serving_model import CAPACITIES, CAPACITY_AIM, SIMULATED, keeps, serving_of
from bench.throughput_model import (
    PAGE,
    RATED,
    RATED_AIM,
    errors,
    figures,
    held_out,
    implied,
    ordered,
    page_with,
    shares,
    stored,
)
from bench.throughput_points import Point, points
from inference_operator.models.facts import Kernel, Quantization
from inference_operator.sizing import efficiency
from inference_operator.sizing.efficiency import cell, measured_share
from inference_operator.sizing.ranking import WITHOUT_OBJECTIVE
from inference_operator.sizing.serving import (
    HALVED_UNTIL,
    LEAST_SLACK,
    TYPICAL_LOAD,
    Limit,
    Load,
    Served,
    Serving,
    serving,
)
from inference_operator.sizing.shape import Objective, ParallelSizes, Shape, SizingInputs
from inference_operator.sizing.steptime import StepCosts
from tests.sizing.pools import model, on_gpus, pool, slowed

COSTS = StepCosts(
    dense=0.005,
    cached_token=4e-8,
    token=3e-5,
    fixed=0.001,
    experts=0.01,
    expert_share=0.05,
    sequence=1e-5,
    windows={"1024": 1e-8},
    attention=1e-9,
    exchange=1e-6,
)
ENGINE = Serving(COSTS, 256, 8192, 400_000)
MOST_ERROR, LEAST_ORDER = 0.25, 0.85


@pytest.fixture(scope="module")
def found() -> list[tuple[Point, float]]:
    """The measurements, each with the share that it implies."""
    return [(point, implied(point)) for point in points()[0]]


@pytest.fixture(scope="module")
def predictions(found: list[tuple[Point, float]]) -> dict[Point, float]:
    return dict(held_out(found, lambda point: point.source))


def test_the_stored_shares_are_those_of_all_measurements(found: list[tuple[Point, float]]) -> None:
    text = Path(efficiency.__file__).with_name("measured_shares.json").read_text(encoding="utf-8")
    assert stored(shares(found)) == text


def test_the_page_has_the_figures_of_the_bench(found: list[tuple[Point, float]]) -> None:
    text, printed = PAGE.read_text(encoding="utf-8"), list(figures(found, points()[1]))
    assert page_with(text, printed) == text, "run `python -m bench.throughput_model --write`"
    (rated,) = (one for one in printed if one.name == RATED)
    assert RATED_AIM.met_by(rated.value)


def test_measurements_of_a_page_are_predicted_without_it(predictions: dict[Point, float]) -> None:
    assert median(errors(predictions)) <= MOST_ERROR
    right = [one for *_, one in ordered(predictions)]
    assert sum(right) / len(right) >= LEAST_ORDER


def each(predictions: dict[Point, float], model_name: str, parallel: ParallelSizes, *, expert: bool = False) -> float:
    """Output tokens per second and GPU of a burst of ShareGPT's requests, as predicted without its page."""
    (found,) = (
        value / parallel.world_size
        for point, value in predictions.items()
        if model_name in point.configuration
        and point.shape.parallel == parallel
        and point.shape.expert_parallel is expert
        and point.metric == "output_tok_s"
        and point.shape.max_num_batched_tokens is None
        and point.engine == "vLLM"
    )
    return found


def test_gpt_oss_120b_on_h100_is_best_on_two_gpus_then_on_one_then_on_four(predictions: dict[Point, float]) -> None:
    one, two, four = (each(predictions, "gpt-oss-120b", ParallelSizes(size)) for size in (1, 2, 4))
    assert two > one > four


def test_two_engines_of_four_gpus_beat_eight_with_expert_parallelism(predictions: dict[Point, float]) -> None:
    name = "Qwen3-235B-A22B-Instruct-2507-FP8"
    assert each(predictions, name, ParallelSizes(4)) > each(predictions, name, ParallelSizes(8), expert=True)


def test_a_pipeline_beats_tensor_parallelism_without_nvlink() -> None:
    (offer,) = pool("RTX-PRO-6000:2")
    engine, facts = on_gpus(offer), model("meta-llama/Llama-3.3-70B-Instruct")
    packed = Quantization(Kernel.NVFP4, 4.5)
    rates = []
    for parallel in (ParallelSizes(1, 2), ParallelSizes(2)):
        shape = Shape(parallel, context=32768, quantization=packed)
        costs = engine.step_costs(facts, shape)
        assert costs is not None
        rates.append(serving(costs, engine.budget(facts, shape)).best(TYPICAL_LOAD, WITHOUT_OBJECTIVE)[0].requests)
    assert rates[0] > rates[1]


def test_a_kind_without_a_measurement_has_the_share_of_its_class_and_counts_as_estimated() -> None:
    facts = model("Qwen/Qwen3-8B")
    known, unknown = (
        measured_share(cell(facts, Shape(), gpu=gpu, capability=capability))
        for gpu, capability in (("H100-80GB", (9, 0)), ("L4", (8, 9)))
    )
    assert known.measurements > 0 == unknown.measurements
    (offer,) = pool("L4:1")
    costs = on_gpus(offer).step_costs(facts, Shape())
    assert costs is not None
    assert costs.estimated


def test_without_a_known_speed_or_with_weights_on_the_host_there_are_no_costs() -> None:
    (offer,) = pool("L4:1")
    facts = model("Qwen/Qwen3-8B")
    assert on_gpus(replace(offer, bandwidth_gb_per_s=0.0)).step_costs(facts, Shape()) is None
    assert on_gpus(offer).step_costs(facts, Shape(cpu_offload_gib=2)) is None


SEQUENCES, PROMPT, CONTEXT = st.floats(1, 1024), st.floats(0, 16384), st.floats(0, 131072)


@given(SEQUENCES, PROMPT, CONTEXT, st.floats(1, 4))
def test_more_work_never_takes_less_time(sequences: float, prompt: float, context: float, factor: float) -> None:
    before = COSTS.seconds(sequences, prompt=prompt, context=context)
    assert COSTS.seconds(sequences * factor, prompt=prompt, context=context) >= before
    assert COSTS.seconds(sequences, prompt=prompt * factor, context=context) >= before
    assert COSTS.seconds(sequences, prompt=prompt, context=context * factor) >= before


@given(SEQUENCES, PROMPT, CONTEXT)
def test_a_pipeline_of_one_stage_is_none_and_rounding_changes_little(
    sequences: float, prompt: float, context: float
) -> None:
    exact = COSTS.seconds(sequences, prompt=prompt, context=context)
    rounded = COSTS.rounded.seconds(sequences, prompt=prompt, context=context)
    assert rounded == pytest.approx(exact, rel=1e-3)


LOADS = st.builds(Load, st.floats(1, 20000), st.floats(1, 4000), st.floats(0, 0.95))


@given(LOADS, st.floats(0.01, 10), st.floats(0.005, 1))
def test_the_best_load_keeps_the_objective_and_the_limits(load: Load, ttft: float, tpot: float) -> None:
    objective = Objective(ttft, tpot)
    served, _, keeps = ENGINE.best(load, objective)
    assert keeps is served.keeps(objective)
    assert served.concurrency <= max(1.0, min(ENGINE.max_num_seqs, ENGINE.room(load)))
    strict, _, kept = ENGINE.best(load, replace(objective, percentile=99))
    if kept:
        assert strict.concurrency <= served.concurrency


@given(LOADS, st.floats(0.01, 10), st.floats(0.005, 1), st.floats(1, 30), st.floats(1, 1.5))
def test_a_slower_engine_never_has_more_requests_at_once_or_a_higher_capacity(
    load: Load, ttft: float, tpot: float, slow: float, slower: float
) -> None:
    objective = Objective(ttft, tpot)
    engines = [replace(ENGINE, costs=slowed(ENGINE.costs, factor)) for factor in (slow, slow * slower)]
    first, second = (engine.best(load, engine.attainable(load, objective))[0] for engine in engines)
    assert second.concurrency <= first.concurrency
    assert second.requests <= first.requests * (1 + 1e-9)


@given(LOADS, st.floats(0.005, 0.2))
def test_an_engine_that_is_fast_enough_aims_at_the_objective_itself(load: Load, tpot: float) -> None:
    aim, alone = ENGINE.attainable(load, Objective(tpot=tpot)), ENGINE.at(1, load)
    assert aim.tpot == max(tpot, LEAST_SLACK * alone.tpot_of(95))
    assert aim.percentile == Objective().percentile


@given(LOADS, st.floats(1, 200))
def test_more_requests_at_once_are_never_served_slower_in_sum(load: Load, concurrency: float) -> None:
    less, more = ENGINE.at(concurrency, load), ENGINE.at(1.2 * concurrency, load)
    assert more.requests >= less.requests * (1 - 1e-9)
    assert more.tpot >= less.tpot * (1 - 1e-9)


@pytest.mark.parametrize("load", CAPACITIES, ids=str)
@pytest.mark.parametrize("name", SIMULATED)
def test_a_simulated_engine_carries_about_the_capacity_that_the_model_computes(name: str, load: Load) -> None:
    engine = SIMULATED[name]
    model = serving_of(engine)
    aim = model.attainable(load, Objective())
    served, *_ = model.best(load, aim)
    assert keeps(engine, load, served.requests / (1 + CAPACITY_AIM.bound), aim)
    assert not keeps(engine, load, served.requests / (1 - CAPACITY_AIM.bound), aim)


def full(engine: Serving, load: Load) -> Served:
    """The engine whose steps are all full."""
    return engine.at(engine.ranks * engine.max_num_batched_tokens / (1 + load.new_prompt / load.answer), load)


@given(LOADS, st.floats(1, 256))
def test_a_shorter_answer_at_the_same_rate_of_tokens_ends_no_room_for_prompts(load: Load, concurrency: float) -> None:
    assert isfinite(ENGINE.at(concurrency, load).ttft_of(95)) == (concurrency < full(ENGINE, load).concurrency)


def check_room(engine: Serving, load: Load) -> bool:
    """The time to the first token is no limit before half of the rate of full batches; whether it is the limit."""
    served, limit, _ = engine.best(load, engine.attainable(load, Objective()))
    too_many = engine.at(served.concurrency + HALVED_UNTIL, load)
    assert limit is not Limit.TTFT or too_many.requests >= full(engine, load).requests / 2
    return limit is Limit.TTFT


@given(LOADS, st.floats(1, 30))
def test_the_first_token_is_no_limit_while_less_than_half_of_the_room_of_batches_is_used(
    load: Load, slow: float
) -> None:
    check_room(replace(ENGINE, costs=slowed(ENGINE.costs, slow)), load)


def test_cached_prompts_leave_more_requests_per_second() -> None:
    rates = [ENGINE.best(Load(4000, 200, part), Objective())[0].requests for part in (0.0, 0.5, 0.9)]
    assert rates == sorted(rates)
    assert rates[-1] > 2 * rates[0]


def test_the_inputs_of_sizing_have_the_objective_of_the_specification() -> None:
    assert SizingInputs().objective == Objective(ttft=2.0, tpot=0.05)
