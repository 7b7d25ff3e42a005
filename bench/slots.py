"""Cost of counting free GPUs in a cluster with many foreign pods: time, requests and memory.

    python -m bench.slots [--pods N] [--gpu-nodes N] [--output text|json]

Runs on a real API server with simulated nodes. Each GPU node has eight foreign pods with a GPU and the usual pods of a
node; the other nodes have as many foreign pods as a kubelet accepts. *Time* is one count with the operator's own
client, from the first request to the sum; the figure is the median of `COUNTS`. *Memory* is the increase of a running
operator's peak: after `ROLLOUTS` changes of one InferenceDeployment with the foreign pods, minus the same without them.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.figures import Figure, at_most, parser_of, shown
from bench.measured_operator import running
from e2e.localkube import local
from e2e.localkube.binaries import Level
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.kube.lookup_listings import free_gpus
from inference_operator.manifest import NODE, POD, Manifest, Ref, kind_of
from tests.testing.workspace import QWEN, Workspace

PODS, GPU_NODES = 10_000, 10
PODS_PER_NODE = 110
"""The default limit of a kubelet (`maxPods`)."""
PODS_PER_GPU_NODE = 30
"""Eight with a GPU; network, storage, logs, metrics and the GPUs' own agents."""
GPU, GPUS_PER_NODE = "nvidia.com/gpu", 8
COUNTS = 15
ROLLOUTS = 5
AT_A_TIME = 24
TIME_AIM, MEMORY_AIM = at_most(0.2), at_most(40)
"""Seconds, and MiB."""
NAMESPACE = "others"
ROLL_SECONDS = 60
"""Time limit of a rollout of simulated pods on two busy cores."""
WORDS = "a value of some length, as pods have them"
ENVIRONMENT = [{"name": f"VARIABLE_{number}", "value": WORDS} for number in range(20)]
"""Makes a pod about as large as a real one: 5 kB."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.slots", "Cost of counting free GPUs.")
    parser.add_argument("--pods", type=int, default=PODS, help="foreign pods")
    parser.add_argument("--gpu-nodes", type=int, default=GPU_NODES, help="nodes with GPUs")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(args.pods, args.gpu_nodes, Path(folder))
    print(shown(figures, args.output))
    return 0


def measured(pods: int, gpu_nodes: int, folder: Path) -> list[Figure]:
    """All figures, on a cluster of its own."""
    name = f"bench-{os.getpid()}"
    try:
        cluster = local.up(name, Level.CONTROL_PLANE, owned=True)
        return _figures(cluster, pods, gpu_nodes, folder)
    finally:
        local.down(name, purge=True)


def _figures(cluster: LocalCluster, pods: int, gpu_nodes: int, folder: Path) -> list[Figure]:
    root = Path(__file__).parents[1]
    cluster.kubectl("apply", "--server-side", "--filename", str(root / "crds" / "inferencedeployments.yaml"))
    for namespace in (NAMESPACE, "ours"):
        cluster.kubectl("create", "namespace", namespace)
    workspace = Workspace(cluster, "ours")
    with running(cluster, folder) as operator:
        workspace.create("qwen", QWEN)
        workspace.settled("qwen")
        _roll(workspace, ROLLOUTS)
        before = operator.peak_mib()
        asyncio.run(_fill(cluster, pods, gpu_nodes))
        _roll(workspace, ROLLOUTS)
        more = operator.peak_mib() - before
        seconds, busy, requests = asyncio.run(_count(cluster))
    foreign = f"with {pods} foreign pods"
    return [
        Figure(f"count free GPUs of {gpu_nodes} nodes, {foreign}", seconds, "seconds", TIME_AIM),
        Figure("CPU time of the client for one count", busy, "seconds"),
        Figure("requests for one count", requests, "requests"),
        Figure(f"increase of the operator's peak memory, {foreign}", more, "MiB", MEMORY_AIM),
    ]


def _roll(workspace: Workspace, times: int) -> None:
    """Change the engine arguments this many times; wait each time until the rollout has ended."""
    for _ in range(times):
        mark = f"--seed={time.monotonic_ns() % 1000}"
        workspace.patch("qwen", {"engine": {"args": [mark]}})
        _await_rolled(workspace, mark)


def _await_rolled(workspace: Workspace, mark: str) -> None:
    eventually(lambda: _has_rolled(workspace, mark), seconds=ROLL_SECONDS, what=f"{mark} has rolled out")


def _has_rolled(workspace: Workspace, mark: str) -> bool:
    deployment = workspace.get("deployment", "qwen-engine")
    status = deployment["status"]
    requested = mark in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    observed = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return requested and observed and {status.get(n) for n in ("updatedReplicas", "replicas", "readyReplicas")} == {1}


async def _fill(cluster: LocalCluster, pods: int, gpu_nodes: int) -> None:
    """Create the nodes and the foreign pods on them."""
    client = await connect(cluster.kubeconfig)
    try:
        kube = KubeCluster(Api(client))
        turns = asyncio.Semaphore(AT_A_TIME)

        async def put(manifest: Manifest) -> None:
            async with turns:
                meta = manifest["metadata"]
                kind = kind_of(manifest)
                ref = Ref(kind, meta.get("namespace", ""), meta["name"])
                await kube.apply(ref, manifest, force=True)

        places = _places(pods, gpu_nodes)
        await asyncio.gather(*(put(_node(number, gpu=number < gpu_nodes)) for number in range(places[-1] + 1)))
        await asyncio.gather(*(put(_pod(number, on, gpu=on < gpu_nodes)) for number, on in enumerate(places)))
    finally:
        await client.close()


async def _count(cluster: LocalCluster) -> tuple[float, float, int]:
    """Wall time and CPU time of one count in seconds (medians of `COUNTS`), and its number of requests."""
    requests: list[str] = []
    client = await connect(cluster.kubeconfig)
    try:
        kube = KubeCluster(Api(client, on_request=lambda verb, kind, code: requests.append(f"{verb} {kind} {code}")))
        times, busy = [], []
        for _ in range(COUNTS):
            requests.clear()
            began, used = time.perf_counter(), time.process_time()
            await free_gpus(kube, GPU)
            times.append(time.perf_counter() - began)
            busy.append(time.process_time() - used)
        return median(times), median(busy), len(requests)
    finally:
        await client.close()


def _node(number: int, *, gpu: bool) -> Manifest:
    capacity = {"cpu": "192", "memory": "2Ti", "pods": str(PODS_PER_NODE), **({GPU: str(GPUS_PER_NODE)} if gpu else {})}
    return {
        "apiVersion": NODE.api_version,
        "kind": NODE.name,
        "metadata": {"name": f"others-{number}"},
        "spec": {"taints": [{"key": "others", "effect": "NoSchedule"}]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _places(pods: int, gpu_nodes: int) -> list[int]:
    """The node of each pod, nodes with GPUs first."""
    on_gpu_nodes = gpu_nodes * PODS_PER_GPU_NODE
    return [
        number // PODS_PER_GPU_NODE if number < on_gpu_nodes else gpu_nodes + (number - on_gpu_nodes) // PODS_PER_NODE
        for number in range(pods)
    ]


def _pod(number: int, on: int, *, gpu: bool) -> Manifest:
    limits = {GPU: "1"} if gpu and number % PODS_PER_GPU_NODE < GPUS_PER_NODE else {"cpu": "1"}
    container = {"name": "main", "image": "example.com/other:1", "env": ENVIRONMENT, "resources": {"limits": limits}}
    return {
        "apiVersion": POD.api_version,
        "kind": POD.name,
        "metadata": {"name": f"other-{number}", "namespace": NAMESPACE},
        "spec": {
            "nodeName": f"others-{on}",
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],  # nobody evicts them from nodes without a kubelet
        },
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
