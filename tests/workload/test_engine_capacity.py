"""How many engines the free GPUs of nodes allow."""

import pytest

from inference_operator.manifest import Manifest
from inference_operator.views.lookups import ClusterGpus, NodeGpus
from inference_operator.views.node import node_view
from inference_operator.workload.eviction.rollout import EngineCapacity, engine_capacity
from tests.testing.nodes import node

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TOLERATING = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}


def gpus(*nodes: Manifest, free: int = 1, total: int = 8, awaited: int = 0) -> ClusterGpus:
    return ClusterGpus(tuple(NodeGpus(node_view(one), total, free) for one in nodes), awaited)


@pytest.mark.parametrize(
    ("free", "awaited", "amount", "slots"),
    [
        ([8, 3], 0, 1, 11),
        ([8, 3], 0, 2, 5),
        ([8, 3], 0, 4, 2),
        ([3, 3], 0, 4, 0),
        ([8, 3], 4, 4, 1),
        ([8, 3], 1, 4, 1),
        ([1], 9, 1, 0),
        ([-1, 1], 0, 1, 1),
        ([], 0, 1, 0),
    ],
)
def test_free_engine_places_are_counted_per_node_less_pending_gpus(
    free: list[int], awaited: int, amount: int, slots: int
) -> None:
    nodes = tuple(NodeGpus(node_view(node(f"n{number}")), 8, left) for number, left in enumerate(free))
    assert engine_capacity(ClusterGpus(nodes, awaited), {}, amount).free == slots


@pytest.mark.parametrize(
    ("free", "awaited", "engines"), [([2], 0, 0), ([1, 1], 0, 1), ([5, 1], 0, 1), ([5, 1], 1, 0), ([2, 2, 2], 0, 3)]
)
def test_the_pods_of_a_group_need_different_nodes(free: list[int], awaited: int, engines: int) -> None:
    nodes = tuple(NodeGpus(node_view(node(f"n{number}")), 8, left) for number, left in enumerate(free))
    assert engine_capacity(ClusterGpus(nodes, awaited), {}, 1, pods=2) == EngineCapacity(
        engines, possible=len(free) > 1
    )


@pytest.mark.parametrize(("total", "amount", "possible"), [(8, 8, True), (8, 9, False), (0, 1, False)])
def test_an_engine_fits_where_a_node_has_enough_gpus_in_total(total: int, amount: int, *, possible: bool) -> None:
    assert engine_capacity(gpus(node("a"), free=0, total=total), {}, amount) == EngineCapacity(0, possible=possible)


def requiring(*terms: Manifest) -> Manifest:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def expressions(*parts: tuple[str, str, list[str]]) -> Manifest:
    return {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in parts]}


LABELS = {"pool": "a", "memory": "81559"}
CASES: dict[str, tuple[Manifest, Manifest, bool]] = {
    "plain": (node("a"), {}, True),
    "not ready": (node("a", ready=False), {}, False),
    "cordoned": (node("a", cordoned=True), {}, False),
    "tainted": (node("a", taints=[GPU_TAINT]), {}, False),
    "tolerated": (node("a", taints=[GPU_TAINT]), TOLERATING, True),
    "tolerated by value": (
        node("a", taints=[GPU_TAINT]),
        {"tolerations": [{"key": "nvidia.com/gpu", "value": "present"}]},
        True,
    ),
    "another value": (
        node("a", taints=[GPU_TAINT]),
        {"tolerations": [{"key": "nvidia.com/gpu", "value": "absent"}]},
        False,
    ),
    "another effect": (
        node("a", taints=[{**GPU_TAINT, "effect": "NoExecute"}]),
        TOLERATING,
        False,
    ),
    "all tolerated": (node("a", taints=[GPU_TAINT]), {"tolerations": [{"operator": "Exists"}]}, True),
    "preferred only": (node("a", taints=[{**GPU_TAINT, "effect": "PreferNoSchedule"}]), {}, True),
    "selected": (node("a", labels=LABELS), {"nodeSelector": {"pool": "a"}}, True),
    "not selected": (node("a", labels=LABELS), {"nodeSelector": {"pool": "b"}}, False),
    "in": (node("a", labels=LABELS), requiring(expressions(("pool", "In", ["a", "b"]))), True),
    "not in": (node("a", labels=LABELS), requiring(expressions(("pool", "NotIn", ["a"]))), False),
    "there": (node("a", labels=LABELS), requiring(expressions(("pool", "Exists", []))), True),
    "not there": (node("a", labels=LABELS), requiring(expressions(("pool", "DoesNotExist", []))), False),
    "more": (node("a", labels=LABELS), requiring(expressions(("memory", "Gt", ["80000"]))), True),
    "less": (node("a", labels=LABELS), requiring(expressions(("memory", "Lt", ["80000"]))), False),
    "no number": (node("a", labels=LABELS), requiring(expressions(("pool", "Gt", ["1"]))), False),
    "unknown": (node("a", labels=LABELS), requiring(expressions(("pool", "Like", ["a"]))), False),
    "all of a term": (
        node("a", labels=LABELS),
        requiring(expressions(("pool", "In", ["a"]), ("memory", "Lt", ["1"]))),
        False,
    ),
    "any of the terms": (
        node("a", labels=LABELS),
        requiring(expressions(("pool", "In", ["b"])), expressions(("pool", "In", ["a"]))),
        True,
    ),
    "an empty term": (node("a", labels=LABELS), requiring({}), False),
    "by name": (
        node("a"),
        requiring({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}),
        False,
    ),
}


@pytest.mark.parametrize(("on", "pod", "admitted"), CASES.values(), ids=CASES)
def test_only_nodes_that_suit_the_pod_count_for_engine_capacity(on: Manifest, pod: Manifest, *, admitted: bool) -> None:
    assert engine_capacity(gpus(on), pod, 1) == EngineCapacity(int(admitted), possible=admitted)
