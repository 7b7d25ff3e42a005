"""The table of public models on GPUs has no absurd row."""

import re
from itertools import pairwise

import pytest

from generators.model_table import KINDS, PER_NODE, plans
from inference_operator.api.engine_kind import EngineProfile
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.fitting import LEAST_CONTEXT, MOST_NODES, TYPICAL_REQUESTS, USUAL_CONTEXT
from inference_operator.sizing.gpu_plan import GpuPlan

LEAST_MODELS = 60
EXPECTED_CARDS = {
    ("Qwen/Qwen2.5-7B-Instruct", "L4"): 2,
    ("meta-llama/Meta-Llama-3.1-8B", "RTX-4090"): 2,
    ("meta-llama/Meta-Llama-3.1-70B", "A100-80GB"): 8,
    ("nvidia/Llama-3.1-70B-Instruct-FP8", "H100"): 2,
    ("Qwen/Qwen3-235B-A22B-FP8", "H100"): 4,
    ("Qwen/Qwen3-30B-A3B", "H100"): 2,
    ("openai/gpt-oss-120b", "H100"): 2,
    ("deepseek-ai/DeepSeek-V3", "H200"): 8,
}
"""Numbers of GPUs on which these models are served under load (their model cards, vLLM's recipes and guides)."""
STORED_GIB = {
    "Qwen/Qwen2-VL-7B-Instruct": 15.45,
    "deepseek-ai/DeepSeek-V4-Flash": 149,
    "Qwen/Qwen3-8B": 15.26,
    "google/gemma-3-27b-it": 51.1,
}
"""Sizes of repositories on the hub in GiB, most with a layer for multi-token prediction that engines do not load."""
SIZE_ERROR = 0.07
BILLIONS = re.compile(r"-(\d+(?:\.\d+)?)[bB]\b")


def fitting(profile: EngineProfile = EngineProfile.BALANCED) -> list[tuple[str, str, ModelFacts, GpuPlan]]:
    return [
        (name, kind, facts, plan)
        for name, (facts, own) in plans(profile).items()
        for kind, plan in own.items()
        if isinstance(facts, ModelFacts) and isinstance(plan, GpuPlan)
    ]


def test_the_table_has_enough_models_on_every_kind_of_gpu() -> None:
    known = [own for facts, own in plans().values() if isinstance(facts, ModelFacts)]
    assert len(known) >= LEAST_MODELS
    assert all(list(own) == list(KINDS) for own in known)


def test_every_group_divides_the_models_heads_and_fits_into_a_node() -> None:
    wrong = [
        (name, kind, plan.gpus_per_replica)
        for name, kind, facts, plan in fitting()
        if plan.shape.parallel.ranks_per_node > PER_NODE or facts.heads % plan.shape.parallel.tensor
    ]
    assert wrong == []


def test_every_context_is_the_models_or_one_with_room_for_other_requests() -> None:
    wrong = [
        (name, kind, plan.budget.context)
        for name, kind, facts, plan in fitting()
        if plan.budget.context > facts.context
        or plan.budget.context < min(facts.context, LEAST_CONTEXT)
        or (not plan.context_reduced and plan.budget.context < min(facts.context, USUAL_CONTEXT))
        or (not plan.context_reduced and plan.budget.typical_concurrency < TYPICAL_REQUESTS)
    ]
    assert wrong == []


def test_more_memory_never_needs_more_gpus() -> None:
    """Of kinds with the same link between GPUs, one with more memory holds a model in as few or fewer."""
    smallest = fitting(EngineProfile.SMALLEST)
    orders = (("A100-40GB", "A100-80GB"), ("H100", "H200", "B200"), ("A10G", "L40S"))
    needed = {(name, kind): plan.gpus_per_replica for name, kind, _, plan in smallest if not plan.context_reduced}
    held = {(name, kind): plan.gpus_per_replica for name, kind, _, plan in smallest}
    wrong = [
        (name, small, large)
        for name in plans()
        for order in orders
        for small, large in pairwise(order)
        if (name, small) in needed and held.get((name, large), MOST_NODES * PER_NODE + 1) > needed[name, small]
    ]
    assert wrong == []


def test_a_model_of_seven_to_nine_billion_parameters_fits_on_two_cards_of_24_gb() -> None:
    cards = {
        (name, kind): plan.gpus_per_replica
        for name, kind, _, plan in fitting(EngineProfile.SMALLEST)
        if kind in ("L4", "A10G", "RTX-4090")
        and (size := BILLIONS.search(name.partition(" ")[0] + "-"))
        and 7 <= float(size[1]) <= 9
    }
    assert len(cards) >= 3 * LEAST_MODELS // 10
    assert {pair: count for pair, count in cards.items() if count > 2} == {}


@pytest.mark.parametrize(("model", "kind"), EXPECTED_CARDS, ids=str)
def test_a_well_known_model_gets_the_number_of_gpus_of_practice(model: str, kind: str) -> None:
    plan = plans()[model][1][kind]
    assert isinstance(plan, GpuPlan)
    assert plan.gpus_per_replica == EXPECTED_CARDS[model, kind]


@pytest.mark.parametrize("model", STORED_GIB)
def test_the_counted_size_of_a_well_known_model_is_that_of_its_repository(model: str) -> None:
    facts = plans()[model][0]
    assert isinstance(facts, ModelFacts)
    assert facts.weight_bytes / 2**30 == pytest.approx(STORED_GIB[model], rel=SIZE_ERROR)
