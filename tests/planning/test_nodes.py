"""Plans of engines over several nodes, through the whole pipeline: offers, room, refusals, hashes."""

import pytest

from inference_operator.api.container import ResourcesSpec
from inference_operator.api.hardware import Device
from inference_operator.api.reasons import Reason
from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.engines.programs import checked_start
from inference_operator.engines.registry import ENGINES
from inference_operator.manifest import Manifest
from inference_operator.objects.compute_resources import requirements
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Refused
from inference_operator.planning.capacity import fixed_replicas
from inference_operator.planning.engine_plan import requested_of_sizes
from inference_operator.planning.gpu_offers import room_for
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.settings import Capacity, Settings
from inference_operator.sizing.plan import Plan, unchecked_plan
from inference_operator.sizing.shape import ParallelSizes, SizingInputs
from inference_operator.status.report import gpus, sizes
from inference_operator.views.node import NodeView, node_view
from tests.planning.test_engine_plan import decided
from tests.testing.builders import inference_deployment, inputs
from tests.testing.nodes import node

R1, L4 = "hf://deepseek-ai/DeepSeek-R1", {"nvidia.com/gpu.product": "NVIDIA-L4"}
FIXED = Settings(capacity=Capacity.FIXED)


def h100s(count: int, gpus: int = 8) -> list[NodeView]:
    return [node_view(node(f"h100-{number}", gpus=gpus)) for number in range(count)]


def refusal(raw: Manifest, nodes: list[NodeView], settings: Settings = FIXED) -> str:
    found = outcome(inputs(raw, nodes=nodes, settings=settings))
    assert isinstance(found, Refused), found
    return found.refusal.message


def plan(raw: Manifest, nodes: list[NodeView], settings: Settings = FIXED) -> Plan:
    return decided(raw, nodes, settings).plan.plan


def test_a_model_beyond_one_node_is_planned_over_two() -> None:
    found = decided(inference_deployment(source=R1), h100s(2), FIXED)
    made = found.plan.plan
    assert made.parallel == ParallelSizes(8, 2, nodes=2)
    assert (made.gpus_per_replica, made.gpus_per_pod, made.cpu) == (16, 8, "11")
    assert gpus(made) == "2x8xH100-80GB"
    assert sizes(made).nodes == 2
    again = PLAN_ANNOTATION.read({"metadata": {"annotations": PLAN_ANNOTATION.entry(found.plan)}})
    assert again == found.plan


def test_a_pod_of_a_group_requests_and_checks_the_gpus_of_its_node() -> None:
    made = plan(inference_deployment(source=R1), h100s(2))
    assert requirements(ResourcesSpec(), made, {})["limits"] == {"nvidia.com/gpu": "8"}
    assert "gpus=8" in checked_start(("vllm", "serve"), made)


def test_status_of_one_node_has_no_nodes() -> None:
    made = plan(inference_deployment(), h100s(1))
    assert "nodes" not in sizes(made).model_dump(by_alias=True)
    assert gpus(made) == "1xH100-80GB"


@pytest.mark.parametrize(
    ("nodes", "asked", "said"),
    [
        (h100s(1), {}, "1 node exists, and the operator's setting `capacity` rules out new ones: add nodes."),
        (h100s(2), {"parallelism": {"nodes": 3}}, "3 nodes with GPUs of one kind are requested, and no more than 2"),
        (
            [*h100s(1), node_view(node("l4", gpus=8, labels=L4))],
            {"parallelism": {"nodes": 2}},
            "2 nodes with GPUs of one kind are requested, and no more than 1 exist",
        ),
        (h100s(2), {"parallelism": {"tensor": 4, "pipeline": 1, "nodes": 8}}, "cannot be divided equally over 8 nodes"),
    ],
)
def test_what_no_nodes_can_hold_is_refused_before_any_pod(nodes: list[NodeView], asked: Manifest, said: str) -> None:
    assert said in refusal(inference_deployment(source=R1, **asked), nodes)


def test_a_node_with_more_gpus_counts_for_a_group_of_smaller_ones() -> None:
    nodes = [*h100s(1), node_view(node("small", gpus=4))]
    asked = inference_deployment(parallelism={"tensor": 4, "nodes": 2})
    assert plan(asked, nodes).parallel == ParallelSizes(4, 2, nodes=2)


def test_nodes_that_may_come_are_planned_for_where_their_number_or_kind_is_named() -> None:
    raw = inference_deployment(source=R1)
    found = outcome(inputs(raw, nodes=h100s(1)))
    assert isinstance(found, Refused)
    assert "1 node exists: if more can be added, name the number." in found.refusal.message
    assert "Set `spec.parallelism.nodes` to 2" in found.refusal.message
    named = inference_deployment(source=R1, parallelism={"nodes": 2})
    assert plan(named, h100s(1), Settings()).parallel.nodes == 2
    of_kind = inference_deployment(source=R1, hardware={"gpu": {"products": ["H100"], "perNode": 8}})
    assert plan(of_kind, h100s(1), Settings()).parallel.nodes == 2
    assert plan(raw, h100s(1), Settings(gpu_offers=("H100:8",))).parallel.nodes == 2


@pytest.mark.parametrize(
    ("kind", "device"), [("Transformers", {}), ("SGLang", {}), ("Transformers", {"hardware": {"device": "CPU"}})]
)
def test_engines_of_one_node_are_refused_on_several(kind: str, device: Manifest) -> None:
    raw = inference_deployment(engine={"kind": kind}, parallelism={"nodes": 2}, **device)
    found = outcome(inputs(raw, nodes=h100s(2)))
    assert isinstance(found, Refused)
    assert found.refusal.reason is Reason.INVALID_PARALLEL_SIZE
    assert found.refusal.message.startswith("spec.parallelism.nodes: This engine runs on one node.")
    assert found.refusal.cure == "Remove it, or set `spec.engine.kind: VLLM`."


def test_sizes_without_a_check_are_divided_over_nodes() -> None:
    made = plan(inference_deployment(parallelism={"tensor": 8, "nodes": 2}), [], Settings())
    assert made.unchecked_reason
    assert (made.parallel, made.gpus_per_pod) == (ParallelSizes(8, 2, nodes=2), 8)
    assert gpus(made) == "2x8"


def test_an_engine_on_cpus_is_divided_over_nodes() -> None:
    cpus: Manifest = {"hardware": {"device": "CPU"}, "parallelism": {"nodes": 2}}
    made = plan(inference_deployment(source="hf://Qwen/Qwen3-0.6B", **cpus), [])
    assert made.device is Device.CPU
    assert made.parallel == ParallelSizes(1, 2, nodes=2)
    assert (gpus(made), made.gpus_per_pod) == ("2xCPU", 0)
    uneven: Manifest = {**cpus, "parallelism": {"pipeline": 1, "nodes": 2}}
    message = refusal(inference_deployment(source="hf://Qwen/Qwen3-0.6B", **uneven), [])
    assert "1 ranks (tensor parallel 1) cannot be divided equally over 2 nodes." in message


@pytest.mark.parametrize(
    ("kind", "device"),
    [("VLLM", "GPU"), ("VLLM", "CPU"), ("SGLang", "GPU"), ("Transformers", "GPU"), ("Transformers", "CPU")],
)
def test_a_size_that_the_model_does_not_allow_is_refused_on_cpus_and_where_no_gpu_is_known(
    kind: str, device: str
) -> None:
    asked: Manifest = {"hardware": {"device": device}, "parallelism": {"tensor": 48}}
    raw = inference_deployment(source="hf://Qwen/Qwen3-0.6B", engine={"kind": kind}, **asked)
    assert refusal(raw, []).startswith("spec.parallelism.tensor: ")


def test_room_counts_sets_of_different_nodes() -> None:
    def room(amounts: list[int], nodes: int, tensor: int = 4) -> int:
        seen = [node_view(node(f"n{number}", gpus=amount)) for number, amount in enumerate(amounts)]
        return room_for(seen, {}, unchecked_plan(SizingInputs(tensor, nodes=nodes)))

    assert room([8, 8, 4], nodes=1) == 5
    assert room([8, 8], nodes=2) == 2
    assert room([8], nodes=2) == 0, "members of one engine need different nodes"
    assert room([16, 4], nodes=2) == 1
    assert room([4, 4, 4], nodes=2) == 1
    assert room([8, 4, 4], nodes=2) == 2
    assert room([], nodes=2) == 0


def test_replicas_are_groups_in_a_cluster_of_fixed_size() -> None:
    made = plan(inference_deployment(source=R1), h100s(2))
    assert fixed_replicas(3, h100s(5), [], {}, plan=made) == 2


def test_the_hash_of_a_specification_without_several_nodes_does_not_change() -> None:
    def requested(**parallelism: int) -> object:
        spec = resource(inference_deployment(parallelism=parallelism)).spec
        assert isinstance(spec, Spec)
        return requested_of_sizes(spec, ENGINES["VLLM"]).get("parallelism")

    assert requested() is None
    assert requested(pipeline=1) is None
    assert requested(tensor=2, pipeline=1) == {"tensor": 2}
    assert requested(tensor=2, pipeline=2) == {"tensor": 2, "pipeline": 2}
    assert requested(pipeline=1, nodes=2) == {"pipeline": 1, "nodes": 2}


def test_a_group_is_planned_anew_if_one_stage_is_requested() -> None:
    made = decided(inference_deployment(source=R1), h100s(2), FIXED).desired
    raw = inference_deployment(source=R1, parallelism={"pipeline": 1})
    found = outcome(inputs(raw, children=made.values(), nodes=h100s(2), settings=FIXED))
    assert isinstance(found, Refused)
    assert "leave out `spec.parallelism.pipeline`" in found.refusal.message
