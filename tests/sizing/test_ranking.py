"""The choice among sizes that fit: the floor, the gain, the profiles, the prices, and the runner-up."""

from dataclasses import replace

import pytest

from bench.choices import Choice, choices
from inference_operator.api.engine_kind import EngineProfile
from inference_operator.sizing.choice import choose
from inference_operator.sizing.fitting import MOST_UNLINKED, Pool
from inference_operator.sizing.fleet import by_cost, fleet_plan
from inference_operator.sizing.gpu_plan import GpuPlan
from inference_operator.sizing.ranking import CLEAR_GAIN, LEAST_CACHE, Option, option_of
from inference_operator.sizing.serving import Load, serving
from inference_operator.sizing.shape import Objective, ParallelSizes, Shape, SizingInputs
from tests.sizing.pools import model, on_gpus, pool
from tests.sizing.test_steptime import check_room

MOE, DENSE = "openai/gpt-oss-120b", "Qwen/Qwen3-8B"


def plan(name: str, gpus: str, **inputs: object) -> GpuPlan:
    found = choose(model(name), pool(gpus), on_gpus, SizingInputs(**inputs))  # type: ignore[arg-type]
    assert isinstance(found, GpuPlan), found.message
    return found


def options_for(name: str, gpus: str) -> list[Option]:
    """All sizes on GPUs of one kind that hold the target."""
    (offer,), inputs = pool(gpus), SizingInputs()
    of_kind = Pool(model(name), offer, on_gpus(offer))
    found = (of_kind.at_target(inputs, parallel) for parallel in of_kind.parallels(inputs))
    return [option_of(of_kind, one, inputs) for one in found if one]


@pytest.fixture(scope="module")
def found() -> list[Choice]:
    """The choice of each model of the catalogue on each kind of GPU."""
    return list(choices())


def test_no_plan_is_below_the_floor_that_another_size_keeps(found: list[Choice]) -> None:
    assert [(one.model, one.gpu) for one in found if one.below_floor] == []
    assert any(one.chosen.gpus_per_replica > one.smallest.gpus_per_replica for one in found)
    assert not any(one.chosen.gpus_per_replica < one.smallest.gpus_per_replica for one in found)


@pytest.mark.parametrize("load", [Load(500, 20), Load(1732, 50)], ids=str)
def test_the_first_token_is_no_limit_of_a_plan_while_less_than_half_of_the_room_is_used(
    found: list[Choice], load: Load
) -> None:
    engines = [serving(one.chosen.step, one.chosen.budget) for one in found if one.chosen.step]
    assert sum(check_room(engine, load) for engine in engines) > 0, "the test says nothing without such a plan"


def test_the_smallest_size_that_starves_the_cache_loses_and_is_named() -> None:
    smallest, chosen = plan(MOE, "H100:8", profile=EngineProfile.SMALLEST), plan(MOE, "H100:8")
    assert (smallest.gpus_per_replica, chosen.gpus_per_replica) == (1, 2)
    assert smallest.budget.kv_cache < LEAST_CACHE * smallest.budget.memory
    assert smallest.runner_up == ""
    assert chosen.runner_up.startswith("tensor parallel ")
    alone = plan(MOE, "H100:2")
    assert alone.runner_up.startswith("tensor parallel 1 on H100-80GB: its KV cache of")


@pytest.mark.parametrize(
    ("name", "gpus", "profile", "tensor"),
    [
        ("Qwen/Qwen3-32B", "L4:8", EngineProfile.BALANCED, 8),
        ("Qwen/Qwen3-32B", "L40S:8", EngineProfile.BALANCED, 4),
        ("Qwen/Qwen3-32B", "L4:8", EngineProfile.THROUGHPUT, 2),
        ("Qwen/Qwen3-32B", "L4:8", EngineProfile.SMALLEST, 2),
        ("Qwen/Qwen3-14B", "A10G:8", EngineProfile.BALANCED, 2),
        ("Qwen/Qwen3-14B", "A10G:8", EngineProfile.LATENCY, 8),
    ],
)
def test_more_than_two_gpus_share_a_bus_only_where_latency_needs_it(
    name: str, gpus: str, profile: EngineProfile, tensor: int
) -> None:
    """A pipeline never shortens the time of a token; a bus costs throughput."""
    found = plan(name, gpus, profile=profile)
    assert found.shape.parallel.tensor == tensor
    if tensor > MOST_UNLINKED:
        assert found.step is not None
        assert found.step.estimated
        assert "pipeline parallel" in found.runner_up
        assert found.runner_up.endswith("(estimated)")


def test_the_longest_context_of_the_largest_group_is_taken_where_the_target_does_not_fit() -> None:
    found = plan("meta-llama/Llama-3.3-70B-Instruct", "L4:8")
    assert found.context_reduced
    deepest = plan("meta-llama/Llama-3.3-70B-Instruct", "L4:8", tensor=1, pipeline=8)
    assert (found.shape.parallel.words, found.gpus_per_replica) == ("tensor parallel 2, pipeline parallel 4", 8)
    assert found.budget.context > deepest.budget.context


def test_more_gpus_need_a_clear_gain() -> None:
    options = options_for(DENSE, "H100:8")
    rates = {one.gpus: one.served.requests / one.gpus for one in options if one.served}
    assert plan(DENSE, "H100:8").gpus_per_replica == 1
    assert all(rates[number] < CLEAR_GAIN * rates[1] for number in (2, 4, 8))


def test_prices_decide_between_kinds() -> None:
    dear, cheap = pool("H100:1 L40S:1")
    for price, kind in ((2.0, "H100-80GB"), (20.0, "L40S")):
        offers = [replace(dear, price=price), replace(cheap, price=1.0)]
        found = choose(model(DENSE), offers, on_gpus, SizingInputs())
        assert isinstance(found, GpuPlan)
        assert found.offer.kind == kind


def test_batches_come_before_a_context_that_nobody_requested() -> None:
    chosen = plan("deepseek-ai/DeepSeek-R1", "H200:8")
    assert (chosen.budget.max_num_seqs, chosen.budget.max_num_batched_tokens) == (1024, 8192)


def test_without_nvlink_a_pipeline_takes_the_place_of_large_tensor_parallel_sizes() -> None:
    assert plan("Qwen/Qwen3-14B", "A10G:8").shape.parallel == ParallelSizes(2, 2)
    assert plan("Qwen/Qwen3-32B", "L4:8", tensor=8).shape.parallel == ParallelSizes(8, 1)
    assert plan("Qwen/Qwen3-8B", "L4:8", pipeline=2).shape.parallel.pipeline == 2
    assert plan("Qwen/Qwen3-32B", "L4:8", pipeline=1).shape.parallel == ParallelSizes(8, 1)
    assert plan("Qwen/Qwen3-32B", "H100:8").shape.parallel.pipeline == 1


def test_the_latency_profile_takes_more_gpus_and_the_throughput_profile_larger_batches() -> None:
    balanced = plan(DENSE, "H100:8")
    fast = plan(DENSE, "H100:8", profile=EngineProfile.LATENCY)
    assert fast.gpus_per_replica > balanced.gpus_per_replica
    many = plan(DENSE, "H100:8", profile=EngineProfile.THROUGHPUT, shape=Shape(doubled_batches=True))
    assert many.budget.max_num_seqs == 2 * balanced.budget.max_num_seqs
    assert many.budget.max_num_batched_tokens == 2 * balanced.budget.max_num_batched_tokens
    assert many.budget.activation > 1.5 * balanced.budget.activation


def test_if_nothing_keeps_the_objective_the_least_time_of_a_token_decides() -> None:
    chosen = plan("meta-llama/Llama-3.3-70B-Instruct", "L40S:8", objective=Objective(tpot=0.001))
    assert chosen.step is not None
    served, _, keeps = serving(chosen.step, chosen.budget).best(Load(), Objective(tpot=0.001))
    assert not keeps
    others = options_for("meta-llama/Llama-3.3-70B-Instruct", "L40S:8")
    assert served.tpot <= CLEAR_GAIN * min(one.tpot for one in others)


def test_a_requested_kv_cache_and_unknown_speeds_take_the_smallest_size() -> None:
    given = Shape(context=8192, kv_cache_bytes=2**31)
    assert plan(DENSE, "H100:8", shape=given).gpus_per_replica == 1
    slow = [replace(one, bandwidth_gb_per_s=0.0) for one in pool("H100:8")]
    found = choose(model(MOE), slow, on_gpus, SizingInputs())
    assert isinstance(found, GpuPlan)
    assert (found.gpus_per_replica, found.step) == (1, None)


@pytest.mark.parametrize("rate", [1.0, 25.0, 400.0])
def test_a_fleet_carries_its_rate_with_one_engine_less_it_does_not(rate: float) -> None:
    load, objective = Load(2000, 300), Objective(0.5, 0.03)
    chosen = [plan(DENSE, gpus, objective=objective) for gpus in ("H100:8", "A100-80GB:8", "L40S:8")]
    plans = [one for engine in chosen if (one := fleet_plan(engine, load, objective, rate))]
    assert plans
    for one in plans:
        assert one.replicas * one.capacity.requests >= rate
        assert (one.replicas - 1) * one.capacity.requests < rate
        assert one.served.keeps(objective) or not one.keeps_objective
        assert one.served.requests == pytest.approx(rate / one.replicas, rel=0.02)
    ordered = by_cost(plans)
    costs = [(not one.keeps_objective, one.memory_gib) for one in ordered]
    assert costs == sorted(costs), "what keeps the objective comes first"
