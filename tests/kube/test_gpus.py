"""Which GPUs are free, and how many requests it takes to know."""

import pytest

from inference_operator.kube.gpus import free_gpus
from inference_operator.manifest import Manifest
from inference_operator.resources.names import ENGINE, labels
from tests.memory_cluster import MemoryCluster
from tests.nodes import GPU, container, gpu_pod, node

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


async def test_nodes_with_gpus_are_counted_and_others_are_not() -> None:
    assert await counted() == {"gpu-a": 8, "gpu-b": 4}


async def test_pods_that_live_take_what_they_ask_for() -> None:
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
async def test_initialisation_counts_as_the_scheduler_counts_it(steps: list[Manifest], taken: int) -> None:
    assert (await counted(gpu_pod("a", 2, on="gpu-a", steps=steps)))["gpu-a"] == 8 - taken


async def test_pods_of_ours_without_a_node_are_ahead_and_those_of_others_are_not() -> None:
    ours = gpu_pod("ours", 2, labels=labels("other", ENGINE), phase="Pending")
    theirs = gpu_pod("theirs", 2, phase="Pending")
    assert (await free_gpus(cluster_of(*NODES, ours, theirs), GPU)).awaited == 2


async def test_it_takes_a_listing_for_each_node_with_gpus_and_two_more() -> None:
    foreign = [gpu_pod(f"foreign-{number}", 1, on="cpu-a") for number in range(50)]
    cluster = cluster_of(*NODES, *foreign)
    await free_gpus(cluster, GPU)
    assert len(cluster.reads) == 2 + 2


async def test_an_amount_that_is_no_number_is_none() -> None:
    strange = node("gpu-c", gpus=1)
    strange["status"]["allocatable"][GPU] = "1k"
    assert (await free_gpus(cluster_of(strange), GPU)).nodes == ()
