"""The host's memory for an engine's KV cache: sizes that the nodes decide, and sizes that no node has."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.hardware.offers import offers_of_node
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Outcome, Planned, Refused
from inference_operator.planning.gpu_offers import GpuOffers
from inference_operator.planning.role_plan import placeable
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.settings import Settings
from inference_operator.status.report import report
from inference_operator.views.lookups import ClusterGpus, FreeGpusLookup, NodeGpus
from inference_operator.views.node import NodeView, node_view
from tests.testing.builders import ENGINES, inference_deployment, inputs
from tests.testing.nodes import node

FIELD = "spec.engine.kvOffload.memory"
NODES = "Nodes with 8 x H100-80GB have 192 GiB of memory for pods and GPUs for 8 such engines; the pod of each"
L4 = {"nvidia.com/gpu.product": "NVIDIA-L4"}


def gpu_node(name: str, gpus: int, memory: str, labels: dict[str, str] | None = None) -> NodeView:
    view = node_view(node(name, gpus=gpus, labels=labels))
    return replace(view, allocatable={**view.allocatable, **({"memory": memory} if memory else {})})


def asking(memory: str, parallelism: Manifest | None = None) -> Manifest:
    return inference_deployment(engine={"kvOffload": {"memory": memory}}, parallelism=parallelism or {})


def decided(raw: Manifest, *nodes: NodeView, children: Iterable[Manifest] = ()) -> Outcome:
    return outcome(inputs(raw, nodes=nodes, children=children))


def carried(found: Outcome) -> tuple[int, str, str, str]:
    """The chosen size, the pod's memory request and /dev/shm, and the argument of the engine."""
    assert isinstance(found, Planned), found
    plan = found.plan.plan
    pod = found.desired[ENGINES]["spec"]["template"]["spec"]
    args: Sequence[str] = pod["containers"][0]["args"]
    given = next((one.partition("=")[2] for one in args if one.startswith("--kv-offloading-size=")), "")
    return plan.kv_offload_gib, pod["containers"][0]["resources"]["requests"]["memory"], plan.shared_memory, given


@pytest.mark.parametrize(
    ("memory", "parallelism", "expected"),
    [
        # Of 2,048 GiB eight engines have 256 each, of which their pods need 16 beside the cache.
        ("2Ti", {}, (120, "136Gi", "122Gi", "120")),
        # Kubelets report KiB; what a node has more than another changes nothing.
        ("2151678976Ki", {}, (120, "136Gi", "122Gi", "120")),
        ("2Ti", {"tensor": 8}, (1000, "1045Gi", "1016Gi", "1000")),
    ],
)
def test_auto_takes_half_of_what_the_node_has_left_for_each_engine(
    memory: str, parallelism: Manifest, expected: tuple[int, str, str, str]
) -> None:
    raw = asking("Auto", parallelism=parallelism)
    found = decided(raw, gpu_node("a", 8, memory))
    assert carried(found) == expected
    seen = inputs(raw, nodes=[gpu_node("a", 8, memory)])
    status = report(seen, found, []).status
    sized = status.condition(ConditionType.SIZED)
    assert sized
    assert f"Each engine keeps {expected[0]:,} GiB of KV cache in the host's memory." in sized.message
    assert status.plan
    assert status.plan.model_dump(by_alias=True)["kvOffloadMemory"] == f"{expected[0]}Gi"


def test_the_node_with_the_least_memory_of_equal_ones_decides_in_any_order() -> None:
    nodes = [gpu_node("a", 8, "2Ti"), gpu_node("b", 8, "1Ti"), gpu_node("c", 8, "4Ti")]
    for seen in (nodes, nodes[::-1]):
        found = decided(asking("Auto"), *seen)
        assert carried(found)[0] == 56
        assert isinstance(found, Planned)
        assert found.plan.plan.gpu == "H100-80GB"


def test_auto_takes_other_gpus_where_the_first_choice_has_no_memory() -> None:
    first, other = gpu_node("a", 8, "64Gi"), gpu_node("b", 4, "512Gi", L4)
    found = decided(asking("Auto"), first, other)
    assert isinstance(found, Planned)
    assert (found.plan.plan.gpu, found.plan.plan.kv_offload_gib) == ("L4", 112)


def test_the_size_is_pinned_with_the_plan() -> None:
    first = decided(asking("Auto"), gpu_node("a", 8, "2Ti"))
    assert isinstance(first, Planned)
    text = first.desired[ENGINES]["metadata"]["annotations"][PLAN_ANNOTATION.key]
    assert PLAN_ANNOTATION.parsed(text).plan.kv_offload_gib == 120
    for nodes in ([gpu_node("a", 8, "4Ti")], [gpu_node("a", 8, "")], []):
        again = decided(asking("Auto"), *nodes, children=first.desired.values())
        assert carried(again) == carried(first)


@pytest.mark.parametrize(
    ("raw", "nodes", "problem", "cure"),
    [
        (
            asking("Auto"),
            [gpu_node("a", 8, "")],
            "`Auto` needs nodes to choose for, and the memory of nodes with H100-80GB is not known.",
            "Set a number, for example `64Gi`.",
        ),
        (
            asking("Auto"),
            [gpu_node("a", 8, "192Gi")],
            f"{NODES} needs 16 GiB without this cache.",
            "Remove it, or use nodes with more.",
        ),
        (
            asking("512Gi"),
            [gpu_node("a", 8, "192Gi")],
            f"{NODES} needs 528 GiB with this cache.",
            "Lower it, or use nodes with more memory.",
        ),
    ],
)
def test_what_no_node_has_is_refused(raw: Manifest, nodes: Sequence[NodeView], problem: str, cure: str) -> None:
    found = decided(raw, *nodes)
    assert isinstance(found, Refused)
    assert (found.refusal.reason, found.refusal.field) == (Reason.NO_SUITABLE_GPU, FIELD)
    assert (found.refusal.problem, found.refusal.cure) == (problem, cure)


def test_a_number_needs_no_memory_that_is_known() -> None:
    for nodes in ([gpu_node("a", 8, "")], [gpu_node("a", 8, "192Gi")]):
        assert carried(decided(asking("64Gi"), *nodes)) == (0, "80Gi", "66Gi", "64")
    declared = outcome(inputs(asking("512Gi"), nodes=[], settings=Settings(gpu_offers=("H100:8",))))
    assert carried(declared)[3] == "512"


def test_auto_is_refused_where_sizes_are_not_computed_and_where_a_node_is_only_declared() -> None:
    declared = outcome(inputs(asking("Auto"), nodes=[], settings=Settings(gpu_offers=("H100:8",))))
    unchecked = outcome(inputs(asking("Auto", parallelism={"tensor": 2}), nodes=None))
    for found in (declared, unchecked):
        assert isinstance(found, Refused)
        assert (found.refusal.field, found.refusal.cure) == (FIELD, "Set a number, for example `64Gi`.")


def test_free_gpus_of_a_node_come_with_their_part_of_its_memory() -> None:
    """So an engine that moves to one of them takes nothing from the pods on the others."""
    view = gpu_node("a", 8, "2Ti")
    offers = offers_of_node(view.labels, view.allocatable)
    known = GpuOffers(live=offers, possible=offers, unknown_nodes=0, visible=True)
    free = ClusterGpus(nodes=(NodeGpus(view, total=8, free=1),), pending=0)
    (left,) = placeable(known, {FreeGpusLookup(offers[0].resource): free}, {}).possible
    assert (left.per_node, left.host_memory_gib) == (1, 256)
