"""Engines are sized for the existing nodes before their pods exist, and run on the nodes of that size."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.sizing.infeasible import TIMES
from tests.testing.operated_cluster import SETTINGS, new_workspace
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QWEN, Workspace

Spec = dict[str, Any]
SLICES = {"nvidia.com/gpu": "0", "nvidia.com/mig-3g.40gb": "2"}
POOLS: dict[str, dict[str, tuple[str, dict[str, str]]]] = {
    "h100": {"h100-a": ("NVIDIA-H100-80GB-HBM3", {"nvidia.com/gpu": "8"})},
    "a100": {"a100-a": ("NVIDIA-A100-SXM4-80GB", {"nvidia.com/gpu": "8"})},
    "l4": {"l4-a": ("NVIDIA-L4", {"nvidia.com/gpu": "4"})},
    "t4": {"t4-a": ("Tesla-T4", {"nvidia.com/gpu": "4"})},
    "mig": {"mig-a": ("NVIDIA-A100-SXM4-80GB", SLICES)},
    "mixed": {
        "mixed-a": ("NVIDIA-H100-80GB-HBM3", {"nvidia.com/gpu": "8"}),
        "mixed-b": ("NVIDIA-L4", {"nvidia.com/gpu": "4"}),
    },
}
PLACED: dict[str, Any] = {
    "h100": ("h100-a", {"nvidia.com/gpu": "1"}, "--tensor-parallel-size=1"),
    "a100": ("a100-a", {"nvidia.com/gpu": "1"}, "--tensor-parallel-size=1"),
    "l4": ("l4-a", {"nvidia.com/gpu": "2"}, "--tensor-parallel-size=2"),
    "t4": ("t4-a", {"nvidia.com/gpu": "4"}, "--tensor-parallel-size=2", "--pipeline-parallel-size=2"),
    "mig": ("mig-a", {"nvidia.com/mig-3g.40gb": "1"}, "--tensor-parallel-size=1"),
    "mixed": ("mixed-a", {"nvidia.com/gpu": "1"}, "--tensor-parallel-size=1"),
}
"""The node, the GPUs and an argument of an engine of Qwen3-8B in each pool."""
LLAMA = {"model": {"source": "hf://meta-llama/Meta-Llama-3.1-70B"}}


def node(cluster: LocalCluster, pool: str, name: str) -> dict[str, Any]:
    """A simulated node of a pool, made like those of the cluster."""
    product, gpus = POOLS[pool][name]
    like = json.loads(cluster.kubectl("get", "node", "gpu-0", "--output=json"))
    left_out = ("nvidia.com/gpu.memory", "nvidia.com/gpu.count")
    labels = {key: value for key, value in like["metadata"]["labels"].items() if key not in left_out}
    told = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": product, "pool": pool}
    room = {**like["status"]["capacity"], **gpus}
    taint = {"key": "pool", "value": pool, "effect": "NoSchedule"}
    annotations = {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, **told}, "annotations": annotations},
        "spec": {"taints": [taint]},
        "status": {"capacity": room, "allocatable": room},
    }


def in_pool(pool: str, spec: Spec = QWEN, **fields: object) -> Spec:
    tolerations = [{"key": "pool", "operator": "Exists"}]
    scheduling = {"nodeSelector": {"pool": pool}, "tolerations": tolerations}
    return {**spec, "scheduling": scheduling, "router": {"replicas": 1}, **fields}


@pytest.fixture
def add(kubernetes: LocalCluster) -> Iterator[Callable[[str, str], None]]:
    """Adds a node of a pool, which goes with the test."""
    added: list[str] = []

    def add_node(pool: str, name: str) -> None:
        kubernetes.kubectl("apply", "--filename=-", input=json.dumps(node(kubernetes, pool, name)))
        added.append(name)

    yield add_node
    if added:
        kubernetes.kubectl("delete", "node", *added)


def engine(workspace: Workspace, name: str) -> dict[str, Any]:
    """The pod of the only engine; one that is replaced may still be there when its successor serves."""
    selector = f"inference-operator.dev/name={name},app.kubernetes.io/component=engine"

    def alone() -> dict[str, Any]:
        found = workspace.all("pods", selector)
        staying = [one for one in found if "deletionTimestamp" not in one["metadata"]]
        return staying[0] if len(staying) == 1 else {}

    return eventually(alone, seconds=30, what="one engine is there")


def tenant(namespace: str, node_name: str) -> dict[str, Any]:
    """A pod of another program that takes all eight GPUs of a node."""
    limits = {"limits": {"nvidia.com/gpu": "8"}}
    container = {"name": "busy", "image": "registry.k8s.io/pause:3.10", "resources": limits}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tenant", "namespace": namespace},
        "spec": {"nodeName": node_name, "containers": [container], "terminationGracePeriodSeconds": 0},
    }


@pytest.mark.parametrize("pool", POOLS)
def test_an_engine_runs_on_the_node_that_it_was_sized_for(
    workspace: Workspace, add: Callable[[str, str], None], pool: str
) -> None:
    for name in POOLS[pool]:
        add(pool, name)
    workspace.create("qwen", in_pool(pool))
    workspace.settled("qwen")
    where, gpus, *arguments = PLACED[pool]
    pod = engine(workspace, "qwen")
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["nodeName"] == where
    assert container["resources"]["limits"] == gpus
    assert set(arguments) <= set(container["args"])
    plan = workspace.get("infd", "qwen")["status"]["plan"]
    assert plan["gpusPerReplica"] == int(*gpus.values())
    assert plan["kvCacheTokens"] >= plan["maxModelLen"] >= 32768
    assert workspace.condition("qwen", "Sized")["reason"] == "Fits"
    assert workspace.condition("qwen", "ModelResolved")["status"] == "True"


def test_a_model_that_fits_no_node_gets_no_pod_until_a_fitting_node_is_added(
    workspace: Workspace, add: Callable[[str, str], None]
) -> None:
    add("l4", "l4-a")
    workspace.create("llama", in_pool("l4", LLAMA, engine={"maxModelLen": 131072}, parallelism={"nodes": 1}))
    workspace.settled(
        "llama", "Stalled", reason="NeedsMultiNode", saying=f"offers 20.3 GiB each (22.1{TIMES}0.92); needs"
    )
    assert workspace.condition("llama", "Sized")["status"] == "False"
    assert workspace.children("llama") == set()
    workspace.patch("llama", {"scheduling": in_pool("h100")["scheduling"]})
    workspace.settled("llama", "Stalled", reason="NoSuitableGpu", saying="No node has a GPU that this engine may use.")
    add("h100", "h100-a")
    workspace.settled("llama")
    assert engine(workspace, "llama")["spec"]["nodeName"] == "h100-a"


def test_an_added_node_restarts_no_engine(workspace: Workspace, add: Callable[[str, str], None]) -> None:
    add("mixed", "mixed-a")
    workspace.create("qwen", in_pool("mixed"))
    workspace.settled("qwen")
    before = workspace.get("deployment", "qwen-engine")["spec"]["template"]
    add("mixed", "mixed-b")
    workspace.patch("qwen", {"replicas": 2})
    eventually(
        lambda: workspace.get("infd", "qwen")["status"].get("readyReplicas") == 2,
        seconds=60,
        what="two engines are ready",
    )
    assert workspace.get("deployment", "qwen-engine")["spec"]["template"] == before


def test_an_engine_that_no_node_takes_is_sized_for_the_gpus_that_are_free(
    kubernetes: LocalCluster, workspace: Workspace, add: Callable[[str, str], None]
) -> None:
    for name in POOLS["mixed"]:
        add("mixed", name)
    kubernetes.kubectl("apply", "--filename=-", input=json.dumps(tenant(workspace.namespace, "mixed-a")))
    workspace.create("qwen", in_pool("mixed"))
    workspace.settled("qwen")
    (container,) = engine(workspace, "qwen")["spec"]["containers"]
    assert engine(workspace, "qwen")["spec"]["nodeName"] == "mixed-b"
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert workspace.get("infd", "qwen")["status"]["plan"]["gpu"] == "L4"


def test_an_engine_waits_for_a_node_with_the_requested_gpu_product(
    workspace: Workspace, add: Callable[[str, str], None]
) -> None:
    """The pool has no node yet; the resource says what a node autoscaler would add."""
    workspace.create("qwen", in_pool("h100", hardware={"gpu": {"products": ["H100-80GB"]}}))
    told = workspace.settled("qwen", "Reconciling", reason="WaitingForNode")
    assert told["message"].startswith("No node has H100-80GB yet.")
    assert workspace.condition("qwen", "Stalled")["status"] == "False"
    add("h100", "h100-a")
    workspace.settled("qwen")
    assert engine(workspace, "qwen")["spec"]["nodeName"] == "h100-a"


def test_a_requested_tensor_parallel_size_is_validated_and_kept(
    workspace: Workspace, add: Callable[[str, str], None]
) -> None:
    add("h100", "h100-a")
    workspace.create("qwen", in_pool("h100", parallelism={"tensor": 3}))
    workspace.settled(
        "qwen",
        "Stalled",
        reason="InvalidParallelSize",
        saying="32 attention heads are not divisible by 3. Use 1, 2, 4, 8",
    )
    workspace.patch("qwen", {"parallelism": {"tensor": 4}})
    workspace.settled("qwen")
    assert engine(workspace, "qwen")["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "4"}


@pytest.fixture
def with_settings(
    kubernetes: LocalCluster, operator: OperatorProcess, account: Path, tmp_path: Path
) -> Iterator[Callable[..., Workspace]]:
    """Runs an operator with other settings instead, and gives a namespace that it watches."""
    started: list[OperatorProcess] = []
    made: list[Workspace] = []

    def start(**settings: str) -> Workspace:
        process = OperatorProcess(account, tmp_path / "log", {**SETTINGS, **settings})
        started.append(process)
        process.start()
        made.append(new_workspace(kubernetes, "sizing"))
        return made[-1]

    operator.stop()
    yield start
    kubernetes.kubectl("delete", "namespace", *(one.namespace for one in made), "--wait=false")
    for process in started:
        process.stop()
        assert "Traceback" not in process.log(), process.log()
    operator.start()


def test_an_engine_waits_for_a_declared_gpu_pool_without_nodes(
    add: Callable[[str, str], None], with_settings: Callable[..., Workspace]
) -> None:
    workspace = with_settings(GPU_OFFERS="NVIDIA-H100-80GB-HBM3:8")
    workspace.create("qwen", in_pool("h100"))
    workspace.settled("qwen", "Reconciling", reason="WaitingForNode")
    affinity = workspace.get("deployment", "qwen-engine")["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    first, *_ = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (product,) = first["matchExpressions"]
    assert product["values"] == ["NVIDIA-H100-80GB-HBM3"]
    add("h100", "h100-a")
    workspace.settled("qwen")


def test_with_fixed_capacity_only_existing_nodes_count(
    add: Callable[[str, str], None], with_settings: Callable[..., Workspace]
) -> None:
    workspace = with_settings(GPU_OFFERS="NVIDIA-H200:8", CAPACITY="Fixed")
    add("h100", "h100-a")
    workspace.create("other", in_pool("h100", hardware={"gpu": {"products": ["H200"]}}))
    workspace.settled(
        "other",
        "Stalled",
        reason="NoSuitableGpu",
        saying="`hardware.gpu` excludes all GPUs of the cluster: H100-80GB (",
    )
    workspace.create("many", in_pool("h100", parallelism={"tensor": 4}, replicas=9))
    workspace.settled("many", saying="Nodes have GPUs for 2 of 9 engines")
    assert workspace.get("deployment", "many-engine")["spec"]["replicas"] == 2
