"""Karpenter itself adds and removes simulated nodes of engines, by the labels of its pool and its instance types."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.karpenter import karpenter, node_pool
from tests.testing.node_pools import G6, GPU, P5, P5_SMALL
from tests.testing.workspace import QWEN, Workspace

pytestmark = pytest.mark.full
POOL = "karpenter"
TAINT = {"key": "pool", "value": POOL, "effect": "NoSchedule"}
PRODUCT = "nvidia.com/gpu.product"
BOUND_SECONDS = 180
KEPT_SECONDS = 60
"""Six times as long as Karpenter waits after a pod has gone, until it looks for a cheaper node."""
CONSOLIDATES = {"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10s"}}}
ASKED: dict[str, Any] = {
    **QWEN,
    "hardware": {"gpu": {"products": ["H100"]}},
    "scheduling": {"nodeSelector": {"pool": POOL}, "tolerations": [TAINT]},
    "router": {"replicas": 1},
}


OTHERS: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "others"},
    "spec": {
        "selector": {"matchLabels": {"app": "others"}},
        "template": {
            "metadata": {"labels": {"app": "others"}},
            "spec": {
                "nodeSelector": {"pool": POOL},
                "tolerations": [TAINT],
                "containers": [{"name": "a", "image": "example.com/a", "resources": {"limits": {GPU: P5.gpus - 1}}}],
            },
        },
    },
}
"""A pod that needs all GPUs but one of a large machine."""


@pytest.fixture(scope="module")
def pool(kubernetes: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A pool without nodes: cheap L4s, and machines with one or eight H100s, labelled as on AWS."""
    with karpenter(kubernetes, [G6, P5, P5_SMALL], tmp_path_factory.mktemp("karpenter")):
        for made in node_pool(POOL, {"pool": POOL}, TAINT):
            kubernetes.kubectl("apply", "--filename=-", input=json.dumps(made))
        yield kubernetes
        kubernetes.kubectl("delete", "nodepool", POOL, "--wait=false")


def listed(cluster: LocalCluster, what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.kubectl("get", what, f"--selector=pool={POOL}", "-o", "json"))[
        "items"
    ]
    return found


def types(cluster: LocalCluster) -> dict[str, str]:
    """The instance types of all nodes, by name."""
    meta = [one["metadata"] for one in listed(cluster, "nodes")]
    return {one["name"]: str(one["labels"]["node.kubernetes.io/instance-type"]) for one in meta}


def type_of(cluster: LocalCluster, node: str) -> str:
    """The instance type of a node."""
    return types(cluster)[node]


def not_there(cluster: LocalCluster, node: str) -> bool:
    return node not in types(cluster)


def blocked(cluster: LocalCluster, node: str) -> str:
    """Karpenter's Event about a node that it would disrupt but for a budget."""
    query = f"--field-selector=involvedObject.kind=Node,involvedObject.name={node}"
    events = json.loads(cluster.kubectl("get", "events", "--all-namespaces", query, "--output=json"))["items"]
    return next((one["message"] for one in events if "prevents pod evictions" in one["message"].lower()), "")


def await_engines(workspace: Workspace, number: int) -> list[dict[str, Any]]:
    """The engines, once this number is ready."""
    eventually(
        lambda: workspace.get("infd", "qwen").get("status", {}).get("readyReplicas") == number,
        seconds=BOUND_SECONDS,
        what=lambda: f"{number} engines are ready: {workspace.get('infd', 'qwen').get('status')}",
    )
    return workspace.all("pods", "app.kubernetes.io/component=engine")


def test_karpenter_adds_the_cheapest_node_with_the_right_gpu_for_each_engine(
    pool: LocalCluster, workspace: Workspace
) -> None:
    workspace.create("qwen", ASKED)
    (first,) = await_engines(workspace, 1)
    (node,) = listed(pool, "nodes")
    assert first["spec"]["nodeName"] == node["metadata"]["name"]
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == P5_SMALL.name
    assert PRODUCT not in node["metadata"]["labels"]
    # GPU feature discovery labels the node after the engine has started there.
    pool.kubectl("label", "node", node["metadata"]["name"], f"{PRODUCT}=NVIDIA-H100-80GB-HBM3")
    workspace.patch("qwen", {"replicas": 2})
    engines = await_engines(workspace, 2)
    assert first["metadata"]["uid"] in {one["metadata"]["uid"] for one in engines}, "the first engine stays"
    nodes = listed(pool, "nodes")
    assert {one["metadata"]["labels"]["node.kubernetes.io/instance-type"] for one in nodes} == {P5_SMALL.name}
    assert sorted(one["spec"]["nodeName"] for one in engines) == sorted(one["metadata"]["name"] for one in nodes)
    assert len(json.loads(pool.kubectl("get", "nodeclaims", "--output=json"))["items"]) == 2


def test_a_node_with_the_only_engine_is_replaced_by_a_cheaper_one_only_without_its_protection(
    pool: LocalCluster, workspace: Workspace, say: Callable[[str], None]
) -> None:
    """What the budget of one engine costs: Karpenter keeps the node, since it looks at budgets before it taints."""
    pool.kubectl("patch", "nodepool", POOL, "--type=merge", f"--patch={json.dumps(CONSOLIDATES)}")
    workspace.kubectl("apply", "--filename=-", input=json.dumps(OTHERS))
    eventually(
        lambda: [*types(pool).values()] == [P5.name],
        seconds=BOUND_SECONDS,
        what=lambda: f"one large node: {types(pool)}",
    )
    workspace.create("qwen", ASKED)
    (first,) = await_engines(workspace, 1)
    dear = first["spec"]["nodeName"]
    assert type_of(pool, dear) == P5.name
    workspace.kubectl("delete", "deployment", OTHERS["metadata"]["name"])
    said = eventually(lambda: blocked(pool, dear), seconds=BOUND_SECONDS, what="Karpenter says why it keeps the node")
    assert "qwen" in said
    time.sleep(KEPT_SECONDS)
    assert [one["spec"]["nodeName"] for one in await_engines(workspace, 1)] == [dear]

    workspace.patch("qwen", {"scheduling": {**ASKED["scheduling"], "evictionWait": "0s"}})
    begun = time.monotonic()
    eventually(
        lambda: not_there(pool, dear), seconds=4 * BOUND_SECONDS, what=lambda: f"no dear node: {listed(pool, 'nodes')}"
    )
    (moved,) = await_engines(workspace, 1)
    assert type_of(pool, moved["spec"]["nodeName"]) == P5_SMALL.name
    kept = f"{P5.price:g} instead of {P5_SMALL.price:g} USD/h as long as it is protected"
    say(f"Karpenter keeps the node of the only engine: {kept}; replaced {time.monotonic() - begun:.0f} s without")


def test_a_label_that_no_pool_knows_is_refused_by_karpenter_and_reported_with_the_fix(
    pool: LocalCluster, workspace: Workspace
) -> None:
    selector = {"pool": POOL, "example.com/rack": "a"}
    workspace.create("qwen", {**ASKED, "scheduling": {"nodeSelector": selector, "tolerations": [TAINT]}})

    def told() -> str:
        message: str = workspace.condition("qwen", "Reconciling").get("message", "")
        return message if "Karpenter adds no node: " in message else ""

    said = eventually(told, seconds=BOUND_SECONDS, what=lambda: f"{workspace.condition('qwen', 'Reconciling')}")
    assert 'label "example.com/rack" does not have known values' in said
    assert "`gpuNodeLabels`" in said
    assert not [one for one in listed(pool, "nodes") if one["metadata"]["labels"].get("example.com/rack")]
