"""Properties of the choice of GPUs: requests that it keeps, preferences, and refusals."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.engine_kind import EngineProfile
from inference_operator.api.reasons import Reason
from inference_operator.hardware.kinds import GPU_KINDS
from inference_operator.hardware.offers import GpuOffer, offer_of_kind, offers_of_node
from inference_operator.sizing.choice import choose
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible
from inference_operator.sizing.shape import Shape, SizingInputs
from tests.sizing.pools import model, on_gpus, pool

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
    SizingInputs,
    tensor=st.none() | st.sampled_from([1, 2, 3, 4, 8]),
    pipeline=st.none() | st.sampled_from([1, 2, 4]),
    nodes=st.none() | st.sampled_from([1, 2, 3]),
    shape=st.builds(Shape, context=st.none() | st.sampled_from([2048, 8192, 16384])),
    concurrency=st.none() | st.integers(1, 64),
)

SMALLEST = SizingInputs(profile=EngineProfile.SMALLEST)


def plan(name: str, gpus: str, request: SizingInputs | None = None) -> GpuPlan:
    found = choose(model(name), pool(gpus), on_gpus, request or SizingInputs())
    assert isinstance(found, GpuPlan), found.message
    return found


def misfit(name: str, gpus: str, request: SizingInputs | None = None) -> Infeasible:
    found = choose(model(name), pool(gpus), on_gpus, request or SizingInputs())
    assert isinstance(found, Infeasible)
    return found


@given(MODELS, OFFERS, st.floats(1.0, 2.0))
def test_more_gpu_memory_never_needs_more_gpus_or_a_shorter_context(name: str, offer: GpuOffer, factor: float) -> None:
    more = replace(offer, memory_gib=offer.memory_gib * factor)
    less, found = (choose(model(name), [one], on_gpus, SMALLEST) for one in (offer, more))
    if isinstance(less, Infeasible):
        return
    assert isinstance(found, GpuPlan)
    assert found.gpus_per_replica <= less.gpus_per_replica
    if (found.shape.parallel, found.shape.max_num_seqs) == (less.shape.parallel, less.shape.max_num_seqs):
        assert found.budget.max_num_seqs > less.budget.max_num_seqs or found.budget.context >= less.budget.context


@given(MODELS, st.lists(OFFERS, max_size=3), WISHES)
def test_a_plan_never_exceeds_the_gpu_offers_and_contains_the_requested_sizes(
    name: str, offers: list[GpuOffer], request: SizingInputs
) -> None:
    found = choose(model(name), offers, on_gpus, request)
    if isinstance(found, Infeasible):
        assert found.problem
        assert found.cure
        return
    assert (found.offer.kind, found.offer.per_node) in {(one.kind, one.per_node) for one in offers}
    parallel = found.shape.parallel
    assert parallel.world_size % parallel.nodes == 0
    assert parallel.ranks_per_node <= found.offer.per_node
    assert parallel.nodes == 1 or found.offer.can_span(parallel.nodes)
    assert request.nodes in (None, parallel.nodes)
    assert request.pipeline in (None, parallel.pipeline)
    assert found.budget.fits
    assert found.budget.needed <= found.budget.offered <= found.offer.memory_gib
    assert request.tensor in (None, found.shape.parallel.tensor)
    assert request.context in (None, found.shape.context)


@given(MODELS, st.lists(OFFERS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_gpu_offers_does_not_change_the_choice(name: str, offers: list[GpuOffer], chance: object) -> None:
    shuffled = list(offers)
    getattr(chance, "shuffle")(shuffled)  # noqa: B009 - a random.Random, which pure code may not import
    assert choose(model(name), offers, on_gpus, SizingInputs()) == choose(
        model(name), shuffled, on_gpus, SizingInputs()
    )


def test_a_requested_tensor_parallel_size_is_kept_although_a_smaller_size_fits() -> None:
    assert plan("Qwen/Qwen3-8B", "H100:8", SizingInputs(tensor=4)).shape.parallel.tensor == 4


def test_a_tensor_parallel_size_that_the_model_does_not_allow_is_refused_with_the_allowed_sizes() -> None:
    found = misfit("microsoft/phi-4", "H100:8", SizingInputs(tensor=4))
    assert found.reason is Reason.INVALID_PARALLEL_SIZE
    assert found.message == (
        "spec.parallelism.tensor: 10 heads of keys and values are neither divisible by 4 nor a divisor of it."
        " Use 1, or 2."
    )


def test_a_tensor_parallel_size_above_the_gpus_of_a_node_is_refused() -> None:
    assert "no node has more than 2" in misfit("Qwen/Qwen3-8B", "L4:2", SizingInputs(tensor=4)).message


def test_a_requested_context_is_never_reduced() -> None:
    found = misfit("Qwen/Qwen3-8B", "L4:1", SizingInputs(nodes=1, shape=Shape(context=40960)))
    assert found.reason is Reason.INSUFFICIENT_GPU_MEMORY
    assert "40,960 tokens" in found.problem


def test_a_requested_context_above_the_models_maximum_is_refused() -> None:
    assert misfit("Qwen/Qwen3-8B", "H100:8", SizingInputs(shape=Shape(context=65536))).reason is Reason.CONTEXT_TOO_LONG


def test_a_higher_requested_concurrency_needs_more_gpus() -> None:
    few, many = (plan("Qwen/Qwen3-8B", "L4:8", SizingInputs(concurrency=number)) for number in (8, 256))
    assert few.gpus_per_replica < many.gpus_per_replica
    assert many.budget.typical(256)


def test_the_cheapest_gpus_are_chosen_if_all_prices_are_known() -> None:
    dear, cheap = (replace(one, price=price) for one, price in zip(pool("L40S:1 H100:1"), (3.0, 2.0), strict=True))
    found = choose(model("Qwen/Qwen3-8B"), [dear, cheap], on_gpus, SizingInputs())
    assert isinstance(found, GpuPlan)
    assert found.offer.kind == "H100-80GB"


def test_the_gpu_kind_of_the_pinned_plan_is_kept() -> None:
    before = plan("Qwen/Qwen3-8B", "H100:8")
    offers = pool("L40S:4 H100:8")
    found = choose(model("Qwen/Qwen3-8B"), offers, on_gpus, SizingInputs(), before.offer.kind)
    assert isinstance(found, GpuPlan)
    assert found.offer.kind == "H100-80GB"


def test_only_requested_gpu_kinds_are_used() -> None:
    assert plan("Qwen/Qwen3-8B", "L40S:4 H100:8", SizingInputs(kinds=("H100",))).offer.kind == "H100-80GB"
    assert misfit("Qwen/Qwen3-8B", "L40S:4", SizingInputs(kinds=("H100",))).reason is Reason.NO_SUITABLE_GPU


def test_an_engine_uses_exactly_one_mig_slice() -> None:
    slices = offers_of_node({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, {"nvidia.com/mig-3g.40gb": "2"})
    found = choose(model("Qwen/Qwen3-8B"), slices, on_gpus, SizingInputs())
    assert isinstance(found, GpuPlan)
    assert (found.shape.parallel.tensor, found.offer.resource) == (1, "nvidia.com/mig-3g.40gb")
    refused = choose(model("Qwen/Qwen3-8B"), slices, on_gpus, SizingInputs(tensor=2))
    assert isinstance(refused, Infeasible)
    assert "MIG slices" in refused.problem


def test_shared_gpus_cannot_be_sized() -> None:
    shared = [replace(one, shared=True) for one in pool("L4:4")]
    found = choose(model("Qwen/Qwen3-8B"), shared, on_gpus, SizingInputs())
    assert isinstance(found, Infeasible)
    assert "shared" in found.problem
    assert "Set `spec.engine.gpuMemoryUtilization`" in found.cure


def test_a_shared_gpu_is_used_if_the_request_says_how_much_of_it() -> None:
    shared = [replace(one, shared=True) for one in pool("L40S:4")]
    request = SizingInputs(shape=Shape(utilization=0.5))
    found = choose(model("Qwen/Qwen3-8B"), shared, on_gpus, request)
    assert isinstance(found, GpuPlan)
    assert (found.shape.parallel.tensor, found.budget.utilization) == (1, 0.5)
    assert found.budget.needed <= 0.5 * found.offer.memory_gib
    two = choose(model("Qwen/Qwen3-8B"), shared, on_gpus, replace(request, tensor=2))
    assert isinstance(two, Infeasible)


@pytest.mark.parametrize(
    ("name", "gpus", "kind"),
    [
        ("Qwen/Qwen3-0.6B", "L4:1 A10G:1", "A10G"),
        ("Qwen/Qwen3-0.6B", "L4:1 A10G:1 RTX-4090:1", "RTX-4090"),
        ("Qwen/Qwen3-0.6B", "T4:1 A10G:1", "T4"),
        ("Qwen/Qwen3-8B", "A10G:4 H100:8", "A10G"),
        ("meta-llama/Llama-3.3-70B-Instruct", "H100:8 A100-80:8", "H100-80GB"),
    ],
)
def test_without_prices_the_least_memory_is_chosen_and_of_nearly_equal_memory_the_highest_bandwidth(
    name: str, gpus: str, kind: str
) -> None:
    assert plan(name, gpus, SMALLEST).offer.kind == kind
    assert plan(name, " ".join(reversed(gpus.split())), SMALLEST).offer.kind == kind


def test_a_cluster_without_gpus_is_named_in_the_refusal() -> None:
    assert misfit("Qwen/Qwen3-8B", "").message == (
        "spec.hardware: there are no GPUs. Change `spec.hardware.gpu`, add a node, or have `gpuOffers` set for the"
        " operator."
    )


def test_a_70b_model_with_throughput_settings_fits_on_eight_a100() -> None:
    asked = Shape(utilization=0.95, max_num_seqs=256, max_num_batched_tokens=16384)
    found = plan("meta-llama/Llama-3.3-70B-Instruct", "A100-80GB:8", SizingInputs(tensor=8, shape=asked))
    assert (found.shape.parallel.tensor, found.shape.max_num_seqs, found.shape.max_num_batched_tokens) == (
        8,
        256,
        16384,
    )
    assert found.shape.utilization == pytest.approx(0.95)
    assert found.shape.context == 131072


def test_cpu_offload_makes_a_large_model_fit() -> None:
    on_one = SizingInputs(nodes=1, shape=Shape(context=8192))
    alone = misfit("meta-llama/Llama-3.3-70B-Instruct", "RTX-4090:1", on_one)
    assert alone.reason is Reason.NEEDS_MULTI_NODE
    offloaded = SizingInputs(shape=Shape(context=8192, cpu_offload_gib=120))
    found = plan("meta-llama/Llama-3.3-70B-Instruct", "RTX-4090:1", offloaded)
    assert found.host.memory_gib > 120
