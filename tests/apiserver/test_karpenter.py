"""Karpenter itself adds simulated nodes for engines: by the labels that its pool and its instance types have."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.handle import LocalCluster
from e2e.waiting import eventually
from tests.testing.karpenter import karpenter, node_pool
from tests.testing.node_pools import G6, P5, P5_SMALL
from tests.testing.workspace import QWEN, Workspace

pytestmark = pytest.mark.full
POOL = "karpenter"
TAINT = {"key": "pool", "value": POOL, "effect": "NoSchedule"}
PRODUCT = "nvidia.com/gpu.product"
BOUND_SECONDS = 180
ASKED = {
    **QWEN,
    "hardware": {"gpu": {"products": ["H100"]}},
    "scheduling": {"nodeSelector": {"pool": POOL}, "tolerations": [TAINT]},
    "router": {"replicas": 1},
}


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
