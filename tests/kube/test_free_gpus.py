"""Counting free GPUs, and the number of requests that it takes."""

import pytest

from inference_operator.kube.lookup_listings import free_gpus
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ENGINE, labels
from tests.testing.memory_cluster import MemoryCluster
from tests.testing.nodes import GPU, container, gpu_pod, node

NODES = [node("gpu-a", gpus=8), node("gpu-b", gpus=4), node("cpu-a"), node("cpu-b")]


def cluster_of(*objects: Manifest) -> MemoryCluster:
    cluster = MemoryCluster()
    for manifest in objects:
        status = manifest.get("status")
        cluster.apply_as("others", manifest)
        if status:
            cluster.set_status(next(ref for ref in cluster.live() if ref.name == manifest["metadata"]["name"]), status)
    return cluster


async def counted(*pods: Manifest) -> dict[str, int]:
    found = await free_gpus(cluster_of(*NODES, *pods), GPU)
    return {one.node.name: one.free for one in found.nodes}


async def test_only_nodes_with_gpus_are_counted() -> None:
    assert await counted() == {"gpu-a": 8, "gpu-b": 4}


async def test_running_pods_take_the_gpus_that_they_request() -> None:
    pods = [
        gpu_pod("a", 2, on="gpu-a"),
        gpu_pod("b", 1, on="gpu-a", phase="Pending"),
        gpu_pod("done", 4, on="gpu-a", phase="Succeeded"),
        gpu_pod("failed", 4, on="gpu-a", phase="Failed"),
        gpu_pod("none", 0, on="gpu-b"),
        gpu_pod("full", 4, on="gpu-b"),
    ]
    assert await counted(*pods) == {"gpu-a": 5, "gpu-b": 0}


@pytest.mark.parametrize(
    ("steps", "taken"),
    [
        ([container(3)], 3),
        ([container(1), container(1)], 2),
        ([container(1, restartPolicy="Always")], 3),
        ([container(1, restartPolicy="Always"), container(3)], 4),
    ],
)
async def test_init_containers_count_as_in_the_scheduler(steps: list[Manifest], taken: int) -> None:
    assert (await counted(gpu_pod("a", 2, on="gpu-a", steps=steps)))["gpu-a"] == 8 - taken


async def test_only_own_unscheduled_pods_count_as_pending() -> None:
    ours = gpu_pod("ours", 2, labels=labels("other", ENGINE), phase="Pending")
    theirs = gpu_pod("theirs", 2, phase="Pending")
    assert (await free_gpus(cluster_of(*NODES, ours, theirs), GPU)).pending == 2


async def test_counting_free_gpus_takes_one_listing_per_gpu_node_and_two_more() -> None:
    foreign = [gpu_pod(f"foreign-{number}", 1, on="cpu-a") for number in range(50)]
    cluster = cluster_of(*NODES, *foreign)
    await free_gpus(cluster, GPU)
    assert len(cluster.reads) == 2 + 2


async def test_an_invalid_gpu_quantity_counts_as_zero() -> None:
    strange = node("gpu-c", gpus=1)
    strange["status"]["allocatable"][GPU] = "1k"
    assert (await free_gpus(cluster_of(strange), GPU)).nodes == ()
