"""Engines over several nodes: which nodes and sizes are chosen, what each pod needs, and what is refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.reasons import Reason
from inference_operator.engines.registry import ENGINES
from inference_operator.hardware.offers import GpuOffer
from inference_operator.planning.engine_plan import ANY_GPU
from inference_operator.sizing.choice import choose
from inference_operator.sizing.cpu import cpu_needs
from inference_operator.sizing.fitting import MOST_NODES
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible, host_needs
from inference_operator.sizing.infeasible import wrong_on_any_device
from inference_operator.sizing.learned import Learned, on_the_same_gpus
from inference_operator.sizing.plan import checked_plan, cpu_plan, unchecked_plan
from inference_operator.sizing.serving import TYPICAL_LOAD, serving, serving_of_plan
from inference_operator.sizing.shape import Adapters, ParallelSizes, Shape, SizingInputs, Speculation
from inference_operator.sizing.weights import rank_weights
from tests.sizing.pools import model, on_gpus, pool
from tests.sizing.test_plan import CPU

R1, LLAMA, SMALL = "deepseek-ai/DeepSeek-R1", "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-8B"
TWO_BY_EIGHT = ParallelSizes(8, 2, nodes=2)


def fixed(offers: list[GpuOffer]) -> list[GpuOffer]:
    """The offers where no more nodes can come."""
    return [replace(one, fixed_nodes=one.nodes) for one in offers]


def sized(name: str, offers: list[GpuOffer], **asked: object) -> GpuPlan:
    found = choose(model(name), offers, on_gpus, SizingInputs(**asked))  # type: ignore[arg-type]
    assert isinstance(found, GpuPlan), found.message
    return found


def refused(name: str, offers: list[GpuOffer], **asked: object) -> Infeasible:
    found = choose(model(name), offers, on_gpus, SizingInputs(**asked))  # type: ignore[arg-type]
    assert isinstance(found, Infeasible), found.shape.parallel
    return found


@pytest.mark.parametrize("offers", [pool("H100:8"), pool("H100:8x2"), fixed(pool("H100:8x2"))])
def test_a_model_beyond_one_node_gets_the_fewest_with_a_stage_on_each(offers: list[GpuOffer]) -> None:
    found = sized(R1, offers)
    assert found.shape.parallel == TWO_BY_EIGHT
    assert (found.gpus_per_replica, found.context_reduced, found.budget.fits) == (16, False, True)


def test_one_node_that_holds_the_model_comes_before_several() -> None:
    found = sized(R1, pool("H100:8x4 H200:8"))
    assert (found.offer.kind, found.shape.parallel) == ("H200", ParallelSizes(8))


def test_nodes_that_exist_come_before_nodes_that_may_come() -> None:
    """The A100 has no FP8 arithmetic, and is slower."""
    assert sized(LLAMA, pool("A100-40GB:8x1 H100:8x1"), nodes=2).offer.kind == "H100-80GB"
    assert sized(LLAMA, pool("A100-40GB:8x2 H100:8x1"), nodes=2).offer.kind == "A100-40GB"


def test_heads_that_limit_the_tensor_parallel_size_are_no_reason_for_a_second_node() -> None:
    """Blocks of FP8 do not divide the experts of MiniMax-M2.5 over eight ranks; four stages of four do."""
    found = sized("MiniMaxAI/MiniMax-M2.5", pool("A100-40GB:8"))
    assert found.shape.parallel == ParallelSizes(4, 2)


def test_without_nvlink_each_node_has_several_stages() -> None:
    parallel = sized(LLAMA, pool("A10G:4")).shape.parallel
    assert (parallel.tensor, parallel.pipeline, parallel.nodes) == (2, 4, 2)


@pytest.mark.parametrize(
    ("asked", "parallel"),
    [
        ({"nodes": 2}, TWO_BY_EIGHT),
        ({"tensor": 8}, TWO_BY_EIGHT),
        ({"tensor": 8, "nodes": 4}, ParallelSizes(8, 4, nodes=4)),
        ({"tensor": 4, "pipeline": 4}, ParallelSizes(4, 4, nodes=2)),
        ({"tensor": 16, "pipeline": 1, "nodes": 2}, ParallelSizes(16, 1, nodes=2)),
        ({"tensor": 8, "pipeline": 2, "nodes": 4}, ParallelSizes(8, 2, nodes=4)),
        ({"data": 16, "nodes": 2}, ParallelSizes(1, data=16, nodes=2)),
        ({"data": 8, "nodes": 2}, ParallelSizes(2, data=8, nodes=2)),
        ({"tensor": 2, "data": 8, "nodes": 2}, ParallelSizes(2, data=8, nodes=2)),
        ({"data": 32, "nodes": 4}, ParallelSizes(1, data=32, nodes=4)),
    ],
)
def test_requested_sizes_are_kept(asked: dict[str, int], parallel: ParallelSizes) -> None:
    assert sized(R1, pool("H100:8"), **asked).shape.parallel == parallel


def test_each_pod_may_have_one_rank_of_a_layer() -> None:
    assert sized(SMALL, pool("H100:1"), tensor=2, pipeline=1, nodes=2).shape.parallel == ParallelSizes(2, nodes=2)


def test_data_parallel_ranks_have_whole_attention_and_share_the_experts() -> None:
    facts, engine = model(R1), on_gpus(pool("H200:8")[0])
    alone, ranks, wide = ParallelSizes(8), ParallelSizes(1, data=8), ParallelSizes(1, data=16, nodes=2)
    weights = [rank_weights(facts, Shape(one))[0] for one in (alone, ranks, wide)]
    assert weights[1].experts == pytest.approx(weights[0].experts, rel=0.02)
    assert weights[2].experts == pytest.approx(weights[0].experts / 2, rel=0.02)
    assert weights[1].always_read == pytest.approx(weights[2].always_read)
    assert weights[1].always_read > 3 * weights[0].always_read
    budgets = [engine.budget(facts, Shape(one, context=32768)) for one in (alone, ranks, wide)]
    assert budgets[1].kv_token_bytes == budgets[0].kv_token_bytes, (
        "each rank has all latent vectors of its own requests"
    )
    assert budgets[2].activation > budgets[1].activation > budgets[0].activation, "buffers for the batches of all ranks"
    assert {one.context_memory for one in budgets} == {budgets[0].context_memory}


def test_an_engine_serves_what_all_its_data_parallel_ranks_serve() -> None:
    found = sized(R1, pool("H200:8"), data=8)
    assert found.step
    one, all_ranks = serving(found.step, found.budget), serving(found.step, found.budget, 8)
    assert all_ranks.max_num_seqs == 8 * one.max_num_seqs
    assert all_ranks.room(TYPICAL_LOAD) == pytest.approx(8 * one.room(TYPICAL_LOAD))
    each, whole = one.at(16, TYPICAL_LOAD), all_ranks.at(128, TYPICAL_LOAD)
    assert whole == replace(each, concurrency=128, requests=whole.requests)
    assert whole.requests == pytest.approx(8 * each.requests)
    first, second = (all_ranks.at(number, TYPICAL_LOAD) for number in (1, 4))
    assert first.tpot == second.tpot, "fewer requests than ranks do not wait for each other"
    assert second.requests == pytest.approx(4 * first.requests)
    assert serving_of_plan(checked_plan(found, model(R1), downloads=True)) is not None


def test_data_parallel_ranks_are_never_chosen() -> None:
    for gpus in ("H200:8", "H100:8", "H100:8x4"):
        assert sized(R1, pool(gpus)).shape.parallel.data == 1


def test_a_small_model_is_divided_over_as_many_nodes_as_requested() -> None:
    parallel = sized(SMALL, pool("H100:8"), nodes=3).shape.parallel
    assert (parallel.pipeline, parallel.nodes) == (3, 3)


@given(
    st.sampled_from([SMALL, LLAMA, R1, "openai/gpt-oss-120b"]),
    st.sampled_from(["L4:1", "L4:8", "A100-40GB:4", "H100:8x2"]),
    st.builds(
        SizingInputs,
        tensor=st.none() | st.sampled_from([1, 2, 4, 8, 16]),
        pipeline=st.none() | st.sampled_from([1, 2, 3, 4]),
        nodes=st.none() | st.integers(1, 9),
        data=st.sampled_from([1, 1, 2, 8, 16]),
    ),
    st.sampled_from([pool, lambda gpus: fixed(pool(gpus))]),
)
def test_ranks_are_divided_equally_over_nodes_that_hold_them(
    name: str, gpus: str, request: SizingInputs, offered: Callable[[str], list[GpuOffer]]
) -> None:
    found = choose(model(name), offered(gpus), on_gpus, request)
    if isinstance(found, Infeasible):
        assert found.problem.endswith(".")
        assert found.cure.endswith(".")
        return
    parallel = found.shape.parallel
    assert parallel.world_size == parallel.nodes * parallel.ranks_per_node
    assert parallel.ranks_per_node <= found.offer.per_node
    assert parallel.nodes <= (request.nodes or MOST_NODES)
    assert found.offer.can_span(parallel.nodes)
    assert on_gpus(found.offer).budget(model(name), found.shape).fits
    for asked, chosen in ((request.tensor, parallel.tensor), (request.pipeline, parallel.pipeline)):
        assert asked in (None, chosen)
    assert parallel.data == request.data
    assert parallel.data % parallel.nodes == 0 or parallel.data == 1


@pytest.mark.parametrize(
    ("offers", "asked", "field", "said"),
    [
        (
            pool("H100:8"),
            {"tensor": 4, "pipeline": 1, "nodes": 3},
            "nodes",
            "4 ranks (tensor parallel 4) cannot be divided equally over 3 nodes. Use 1, 2, or 4, or change",
        ),
        (
            fixed(pool("H100:8 L4:8x2")),
            {"nodes": 3},
            "nodes",
            "no more than 2 exist (GPUs of a node: 8 H100-80GB, 8 L4). The operator's setting `capacity` rules out new",
        ),
        (
            pool("H100:8"),
            {"tensor": 16, "nodes": 2},
            "nodes",
            "32 GPUs over 2 nodes are more than 8 on each, and no node has more. Use more nodes, or smaller",
        ),
        (
            pool("H100:8"),
            {"tensor": 16},
            "tensor",
            "no node has more than 8. Use at most 8, or leave it out. Set `spec.parallelism.nodes` to divide an engine",
        ),
        (pool("H100:8"), {"pipeline": 100}, "pipeline", "80 layers cannot be divided over 100 stages. Use at most 80."),
        (pool("H100:8"), {"nodes": 100}, "nodes", "80 layers cannot be divided over 100 stages. Use at most 80."),
        ([replace(pool("H100:8")[0], slice=True)], {"nodes": 2}, "nodes", "MIG slices cannot communicate"),
        (
            pool("H100:8"),
            {"data": 8},
            "data",
            "Data parallel ranks share routed experts, and this model has none. Leave it out, and set `spec.",
        ),
    ],
)
def test_an_impossible_division_is_refused_in_words(
    offers: list[GpuOffer], asked: dict[str, int], field: str, said: str
) -> None:
    found = refused(LLAMA, offers, **asked)
    assert found.reason is Reason.INVALID_PARALLEL_SIZE
    assert found.field == f"spec.parallelism.{field}"
    assert said in found.message


@pytest.mark.parametrize(
    ("offers", "asked", "field", "said"),
    [
        (
            pool("H100:8"),
            {"data": 16, "nodes": 3},
            "data",
            "16 data parallel ranks cannot be divided equally over 3 nodes. Use a multiple of 3, or change `spec.para",
        ),
        (
            pool("H100:8"),
            {"data": 2, "tensor": 8, "nodes": 4},
            "data",
            "2 data parallel ranks cannot be divided equally",
        ),
        (
            pool("H100:8"),
            {"data": 4, "pipeline": 2, "nodes": 2},
            "data",
            "4 data parallel ranks and 2 stages are requested together. Use one of `spec.parallelism.data` and `.pipe",
        ),
        (
            pool("H100:8"),
            {"data": 16, "tensor": 2},
            "data",
            "32 GPUs are requested, and no node has more than 8. Use at most 4, or leave it out. Set `spec.para",
        ),
        (
            pool("H100:8"),
            {"data": 16, "tensor": 2, "nodes": 2},
            "nodes",
            "32 GPUs over 2 nodes are more than 8 on each, and no node has more. Use more nodes, or smaller `spec.para",
        ),
        (fixed(pool("H100:8")), {"data": 16, "nodes": 2}, "nodes", "and no more than 1 exist (GPUs of a node: 8 H100"),
        ([replace(pool("H100:8")[0], slice=True)], {"data": 8}, "data", "MIG slices cannot communicate"),
    ],
)
def test_impossible_data_parallel_ranks_are_refused_in_words(
    offers: list[GpuOffer], asked: dict[str, int], field: str, said: str
) -> None:
    found = refused(R1, offers, **asked)
    assert found.reason is Reason.INVALID_PARALLEL_SIZE
    assert found.field == f"spec.parallelism.{field}"
    assert said in found.message


def test_too_little_memory_for_data_parallel_ranks_is_told_for_the_smallest_batches() -> None:
    found = refused("moonshotai/Kimi-K2-Instruct", pool("H100:8"), data=16, nodes=2)
    assert found.reason is Reason.INSUFFICIENT_GPU_MEMORY
    assert "tensor parallel 1, data 16, on H100-80GB offers 72.8 GiB each" in found.problem
    assert "activation 4.2" in found.problem


def test_shared_gpus_are_for_engines_of_one_node() -> None:
    shared = [replace(one, shared=True) for one in pool("L40S:4x2")]
    found = refused(SMALL, shared, nodes=2, shape=Shape(utilization=0.45))
    assert found.message == (
        "spec.parallelism.nodes: An engine has exactly one of the GPUs that pods share. Use 1, or leave it out."
    )


@pytest.mark.parametrize(
    ("offers", "asked", "cure"),
    [
        (
            fixed(pool("H100:8")),
            {},
            "1 node exists, and the operator's setting `capacity` rules out new ones: add nodes.",
        ),
        (pool("H100:8"), {"nodes": 1}, "Set `spec.parallelism.nodes` to 2."),
        (
            pool("H100:8"),
            {"pipeline": 1},
            "Set `spec.parallelism.nodes` to 2, and leave out `spec.parallelism.pipeline`.",
        ),
    ],
)
def test_a_group_that_the_cluster_or_the_request_rules_out_is_named(
    offers: list[GpuOffer], asked: dict[str, int], cure: str
) -> None:
    found = refused(R1, offers, **asked)
    assert found.reason is Reason.NEEDS_MULTI_NODE
    assert "tensor parallel 8 on H100-80GB offers 72.8 GiB each" in found.problem
    assert f"A group of 2 nodes would hold it (tensor parallel 8, pipeline parallel 2). {cure}" in found.cure


def test_a_model_beyond_the_most_nodes_is_refused_for_its_memory() -> None:
    found = refused(R1, pool("T4:1"), kinds=())
    assert found.reason in (Reason.INSUFFICIENT_GPU_MEMORY, Reason.NO_SUITABLE_GPU)


def test_a_larger_tensor_parallel_size_on_one_node_comes_before_several_nodes() -> None:
    found = refused(LLAMA, pool("H100:8"), tensor=2, shape=Shape(context=32768))
    assert found.reason is Reason.INSUFFICIENT_GPU_MEMORY
    assert found.cure.startswith("Fits with tensor parallel 4, ")


@pytest.mark.parametrize("kind", ["SGLang", "LlamaCpp", "Transformers"])
def test_other_engines_get_one_node(kind: str) -> None:
    engine = ENGINES[kind]
    found = choose(model(LLAMA), pool("L4:1"), lambda offer: engine.on_gpus("", offer), SizingInputs())
    assert not engine.runs_over_nodes
    assert isinstance(found, Infeasible)
    assert "With `spec.engine.kind: VLLM` an engine can have several nodes." in found.cure


@pytest.mark.parametrize("kind", ["SGLang", "LlamaCpp", "Transformers"])
def test_other_engines_refuse_the_field_of_pipelines(kind: str) -> None:
    engine, inputs = ENGINES[kind], SizingInputs(2, pipeline=2)
    counted = choose(model(LLAMA), pool("H100:8"), lambda offer: engine.on_gpus("", offer), inputs)
    for found in (counted, wrong_on_any_device(model(LLAMA), engine.on_gpus("", ANY_GPU), inputs)):
        assert isinstance(found, Infeasible)
        assert (found.field, found.cure) == ("spec.parallelism.pipeline", "Use at most 1.")


def test_speculative_decoding_gets_several_nodes_only_on_request() -> None:
    shape = Shape(speculation=Speculation(2, own_layer=True))
    assert refused(R1, pool("H100:8"), shape=shape).reason is Reason.INSUFFICIENT_GPU_MEMORY
    assert sized(R1, pool("H100:8"), shape=shape, nodes=2).shape.parallel == TWO_BY_EIGHT


def test_each_pod_needs_what_its_own_ranks_need() -> None:
    facts, adapters = model(LLAMA), Adapters(rank=16, kept=8)
    one, group = (Shape(ParallelSizes(8, stages, nodes=stages), adapters=adapters) for stages in (1, 2))
    assert host_needs(facts, group) == host_needs(facts, one)
    plain, spread = unchecked_plan(SizingInputs(8)), unchecked_plan(SizingInputs(8, nodes=2))
    assert (spread.gpus_per_replica, spread.gpus_per_pod, spread.parallel) == (16, 8, TWO_BY_EIGHT)
    assert (spread.cpu, spread.memory, spread.shared_memory) == (plain.cpu, plain.memory, plain.shared_memory)


def test_each_pod_on_cpus_has_the_memory_of_its_own_ranks_and_the_whole_weights() -> None:
    facts, inputs = model("Qwen/Qwen3-0.6B"), SizingInputs(nodes=2)
    alone, spread = (cpu_needs(facts, CPU, one.requested_shape) for one in (SizingInputs(), inputs))
    assert spread.memory_gib <= alone.memory_gib
    assert spread.memory_gib > facts.weight_bytes / 2**30
    plan = cpu_plan(inputs, spread, facts, downloads=True)
    assert (plan.parallel, plan.gpus_per_pod) == (ParallelSizes(1, 2, nodes=2), 0)
    assert plan.ephemeral_storage == cpu_plan(SizingInputs(), alone, facts, downloads=True).ephemeral_storage


def test_exchange_over_the_network_is_slower_than_over_nvlink() -> None:
    engine = on_gpus(pool("H100:8")[0])
    shapes = [
        ParallelSizes(8, 2),
        ParallelSizes(8, 2, nodes=2),
        ParallelSizes(16, nodes=2),
        ParallelSizes(16),
    ]
    local, stages, tensor, wide = (engine.step_costs(model(LLAMA), Shape(one)) for one in shapes)
    assert local
    assert stages
    assert tensor
    assert wide
    assert local.exchange < stages.exchange < tensor.exchange
    near, far = (engine.step_costs(model(R1), Shape(ParallelSizes(1, data=16, nodes=nodes))) for nodes in (1, 2))
    assert near
    assert far
    assert (near.exchange, near.fixed) < (far.exchange, far.fixed)
    assert wide.exchange < tensor.exchange
    assert stages.estimated
    assert stages.seconds(16, prompt=1000) > local.seconds(16, prompt=1000)


def test_a_rate_of_requests_is_served_by_groups_where_one_node_is_too_small() -> None:
    found = choose(model(R1), pool("H100:8"), on_gpus, SizingInputs())
    assert isinstance(found, GpuPlan)
    assert found.gpus_per_replica == 16


def test_no_context_is_reduced_while_another_division_over_these_nodes_holds_all_of_it() -> None:
    facts, nodes = model("Qwen/Qwen3-VL-235B-A22B-Instruct"), pool("A100-40GB:8")
    shallow = choose(facts, nodes, on_gpus, SizingInputs(tensor=8, pipeline=2, nodes=2))
    found = choose(facts, nodes, on_gpus, SizingInputs())
    assert isinstance(shallow, GpuPlan)
    assert isinstance(found, GpuPlan)
    assert shallow.context_reduced
    assert (found.shape.parallel, found.context_reduced) == (ParallelSizes(4, 4, nodes=2), False)


def test_a_corrected_engine_stays_on_its_nodes() -> None:
    learned = Learned("H100-80GB", 8, pipeline=2, nodes=2, longest=30000)
    same = on_the_same_gpus(SizingInputs(), learned, least=8192)
    assert same
    assert same.requested_shape.parallel == TWO_BY_EIGHT
