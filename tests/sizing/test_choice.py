"""What a choice honours, prefers and refuses, and what is true of every choice."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_operator.hardware.kinds import GPU_KINDS
from inference_operator.hardware.offers import GpuOffer, offer_of_kind, offers_of_node
from inference_operator.sizing.choice import choose
from inference_operator.sizing.gpu_plan import GpuPlan, GpuWishes, Misfit, Why
from inference_operator.sizing.shape import Shape
from tests.sizing.pools import memory_of, model, pool

MODELS = st.sampled_from(
    [
        "Qwen/Qwen3-8B",
        "microsoft/phi-4",
        "openai/gpt-oss-20b",
        "google/gemma-3-27b-it",
        "Qwen/Qwen3-30B-A3B",
        "Qwen/Qwen3.5-27B",
        "deepseek-ai/DeepSeek-V2-Lite-Chat",
        "meta-llama/Llama-3.3-70B-Instruct",
    ]
)
OFFERS = st.builds(
    offer_of_kind, st.sampled_from(GPU_KINDS), per_node=st.sampled_from([1, 2, 4, 8]), nodes=st.integers(1, 3)
)
WISHES = st.builds(
    GpuWishes,
    tensor=st.none() | st.sampled_from([1, 2, 3, 4, 8]),
    context=st.none() | st.sampled_from([2048, 8192, 16384]),
    concurrency=st.none() | st.integers(1, 64),
)


def plan(name: str, gpus: str, wishes: GpuWishes | None = None) -> GpuPlan:
    found = choose(model(name), pool(gpus), memory_of, wishes or GpuWishes())
    assert isinstance(found, GpuPlan), found.message
    return found


def misfit(name: str, gpus: str, wishes: GpuWishes | None = None) -> Misfit:
    found = choose(model(name), pool(gpus), memory_of, wishes or GpuWishes())
    assert isinstance(found, Misfit)
    return found


@settings(max_examples=25, deadline=None)
@given(MODELS, OFFERS, st.floats(1.0, 2.0))
def test_more_memory_never_asks_for_more_gpus_nor_shortens_the_context(
    name: str, offer: GpuOffer, factor: float
) -> None:
    more = replace(offer, memory_gib=offer.memory_gib * factor)
    less, found = (choose(model(name), [one], memory_of, GpuWishes()) for one in (offer, more))
    if isinstance(less, Misfit):
        return
    assert isinstance(found, GpuPlan)
    assert found.shape.tensor <= less.shape.tensor
    if found.shape.tensor == less.shape.tensor:
        assert found.budget.context >= less.budget.context


@settings(max_examples=25, deadline=None)
@given(MODELS, st.lists(OFFERS, max_size=3), WISHES)
def test_a_plan_never_exceeds_the_offers_and_honours_what_was_asked(
    name: str, offers: list[GpuOffer], wishes: GpuWishes
) -> None:
    found = choose(model(name), offers, memory_of, wishes)
    if isinstance(found, Misfit):
        assert found.problem
        assert found.cure
        return
    assert (found.offer.kind, found.offer.per_node) in {(one.kind, one.per_node) for one in offers}
    assert found.gpus_per_replica <= found.offer.per_node
    assert found.budget.fits
    assert found.budget.needed <= found.budget.offered <= found.offer.memory_gib
    assert wishes.tensor in (None, found.shape.tensor)
    assert wishes.context in (None, found.shape.context)


@settings(max_examples=20, deadline=None)
@given(MODELS, st.lists(OFFERS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_the_nodes_changes_nothing(name: str, offers: list[GpuOffer], chance: object) -> None:
    shuffled = list(offers)
    getattr(chance, "shuffle")(shuffled)  # noqa: B009 - a random.Random, which pure code may not import
    assert choose(model(name), offers, memory_of, GpuWishes()) == choose(model(name), shuffled, memory_of, GpuWishes())


def test_a_size_that_was_asked_for_is_kept_although_a_smaller_one_fits() -> None:
    assert plan("Qwen/Qwen3-8B", "H100:8", GpuWishes(tensor=4)).shape.tensor == 4


def test_a_size_that_the_model_does_not_allow_is_refused_with_those_it_does() -> None:
    found = misfit("microsoft/phi-4", "H100:8", GpuWishes(tensor=4))
    assert found.why is Why.INVALID_PARALLEL_SIZE
    assert found.message == (
        "spec.parallelism.tensor: 10 heads of keys and values are neither divisible by 4 nor a divisor of it."
        " Use 1, or 2."
    )


def test_a_size_beyond_a_node_is_refused() -> None:
    assert "no node has more than 2" in misfit("Qwen/Qwen3-8B", "L4:2", GpuWishes(tensor=4)).message


def test_a_context_that_was_asked_for_is_never_reduced() -> None:
    found = misfit("Qwen/Qwen3-8B", "L4:1", GpuWishes(context=40960))
    assert found.why is Why.INSUFFICIENT_GPU_MEMORY
    assert "40,960 tokens" in found.problem


def test_a_context_beyond_the_models_own_is_refused() -> None:
    assert misfit("Qwen/Qwen3-8B", "H100:8", GpuWishes(context=65536)).why is Why.CONTEXT_TOO_LONG


def test_more_requests_at_once_take_more_gpus() -> None:
    few, many = (plan("Qwen/Qwen3-8B", "L4:8", GpuWishes(concurrency=number)) for number in (8, 256))
    assert few.shape.tensor < many.shape.tensor
    assert many.budget.typical(256)


def test_the_cheapest_group_is_taken_where_prices_are_known() -> None:
    dear, cheap = (replace(one, price=price) for one, price in zip(pool("L40S:1 H100:1"), (3.0, 2.0), strict=True))
    found = choose(model("Qwen/Qwen3-8B"), [dear, cheap], memory_of, GpuWishes())
    assert isinstance(found, GpuPlan)
    assert found.offer.kind == "H100-80GB"


def test_the_kind_in_force_is_kept() -> None:
    before = plan("Qwen/Qwen3-8B", "H100:8")
    offers = pool("L40S:4 H100:8")
    found = choose(model("Qwen/Qwen3-8B"), offers, memory_of, GpuWishes(), before.offer.kind)
    assert isinstance(found, GpuPlan)
    assert found.offer.kind == "H100-80GB"


def test_only_kinds_that_may_be_used_are() -> None:
    assert plan("Qwen/Qwen3-8B", "L40S:4 H100:8", GpuWishes(kinds=("H100",))).offer.kind == "H100-80GB"
    assert misfit("Qwen/Qwen3-8B", "L40S:4", GpuWishes(kinds=("H100",))).why is Why.NO_SUITABLE_GPU


def test_a_slice_is_used_alone() -> None:
    slices = offers_of_node({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, {"nvidia.com/mig-3g.40gb": "2"})
    found = choose(model("Qwen/Qwen3-8B"), slices, memory_of, GpuWishes())
    assert isinstance(found, GpuPlan)
    assert (found.shape.tensor, found.offer.resource) == (1, "nvidia.com/mig-3g.40gb")
    refused = choose(model("Qwen/Qwen3-8B"), slices, memory_of, GpuWishes(tensor=2))
    assert isinstance(refused, Misfit)
    assert "MIG slices" in refused.problem


def test_shared_gpus_cannot_be_sized() -> None:
    shared = [replace(one, shared=True) for one in pool("L4:4")]
    found = choose(model("Qwen/Qwen3-8B"), shared, memory_of, GpuWishes())
    assert isinstance(found, Misfit)
    assert "shared" in found.problem


def test_without_gpus_it_says_so() -> None:
    assert misfit("Qwen/Qwen3-8B", "").message == (
        "spec.hardware: there are no GPUs. Change `spec.hardware.gpu`, add a node, or have `gpuOffers` set for the"
        " operator."
    )


def test_what_needs_several_nodes_names_the_group() -> None:
    found = misfit("deepseek-ai/DeepSeek-R1", "H100:8")
    assert found.why is Why.NEEDS_MULTI_NODE
    assert "A group of 2 nodes would hold it (tensor parallel 8, pipeline parallel 2)" in found.cure


def test_seventy_billion_for_throughput() -> None:
    asked = Shape(utilization=0.95, max_num_seqs=256, max_num_batched_tokens=16384)
    found = plan("meta-llama/Llama-3.3-70B-Instruct", "A100-80GB:8", GpuWishes(tensor=8, shape=asked))
    assert (found.shape.tensor, found.shape.max_num_seqs, found.shape.max_num_batched_tokens) == (8, 256, 16384)
    assert found.shape.utilization == pytest.approx(0.95)
    assert found.shape.context == 131072


def test_weights_that_the_host_keeps_make_a_large_model_fit() -> None:
    alone = misfit("meta-llama/Llama-3.3-70B-Instruct", "RTX-4090:1", GpuWishes(context=8192))
    assert alone.why is Why.NEEDS_MULTI_NODE
    offloaded = GpuWishes(context=8192, shape=Shape(cpu_offload_gib=120))
    found = plan("meta-llama/Llama-3.3-70B-Instruct", "RTX-4090:1", offloaded)
    assert found.host.memory_gib > 120
