"""A cluster with many InferenceDeployments, for benches of the operator: how they are made, and waited for."""

import asyncio
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.measured_operator import MeasuredOperator
from e2e.localkube import local
from e2e.localkube.binaries import Level
from e2e.localkube.handle import LocalCluster
from e2e.localkube.progress import step
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import API_VERSION, INFERENCE_DEPLOYMENT, Manifest, Ref

NAMESPACE = "bench"
"""The namespaces of the resources have this prefix."""
PER_NAMESPACE = 50
"""Resources of one namespace. Kubernetes' controllers look at all pods and ReplicaSets of a namespace for each of its
Deployments and Services, so that thousands of resources in one namespace cost the square of their number."""
SPEC: Manifest = {"model": {"source": "hf://Qwen/Qwen3-8B"}, "hardware": {"device": "CPU"}, "replicas": 1}
"""On CPUs, so that the number of resources is not limited by nodes with 8 GPUs."""
PODS_PER_NODE = 100
AT_ONCE = 16
"""Concurrent requests of the user and of the bare client."""
QUIET_SECONDS = 10
_POLL_SECONDS, _LONGEST_SECONDS = 0.25, 3600


@contextmanager
def cluster_of(count: int, pods_each: int, *prefixes: str) -> Iterator[LocalCluster]:
    """A cluster for so many resources: nodes for twice as many pods, the CRD, and namespaces with these prefixes."""
    name = f"bench-{os.getpid()}"
    try:
        nodes = math.ceil(2 * count * pods_each / PODS_PER_NODE)
        cluster = local.up(name, Level.CONTROL_PLANE, gpu_nodes=nodes, owned=True)
        root = Path(__file__).parents[1]
        cluster.kubectl("apply", "--server-side", "--filename", str(root / "crds" / "inferencedeployments.yaml"))
        names = [namespace_of(number, prefix) for prefix in prefixes for number in range(0, count, PER_NAMESPACE)]
        made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
        manifests = {"apiVersion": "v1", "kind": "List", "items": made}
        cluster.kubectl("create", "--filename=-", input=json.dumps(manifests))
        yield cluster
    finally:
        local.down(name, purge=True)


def named(number: int, spec: Manifest = SPEC) -> Manifest:
    """The InferenceDeployment with this number."""
    meta = {"name": name_of(number), "namespace": namespace_of(number)}
    return {"apiVersion": API_VERSION, "kind": INFERENCE_DEPLOYMENT.name, "metadata": meta, "spec": spec}


def spec_of(routers: int) -> Manifest:
    """The specification with so many pods of routers."""
    return {**SPEC, "router": {"replicas": routers}}


def name_of(number: int) -> str:
    """Its name, which no other one has in any namespace."""
    return f"qwen-{number}"


def namespace_of(number: int, prefix: str = NAMESPACE) -> str:
    """Its namespace, among those with this prefix."""
    return f"{prefix}-{number // PER_NAMESPACE}"


async def send(cluster: LocalCluster, manifests: Sequence[Manifest]) -> None:
    """Apply all of them, some at a time."""
    client = await connect(cluster.kubeconfig)
    kube, limit = KubeCluster(Api(client)), asyncio.Semaphore(AT_ONCE)

    async def apply(manifest: Manifest) -> None:
        async with limit:
            await kube.apply(Ref.of(manifest), manifest, force=True)

    await asyncio.gather(*(apply(manifest) for manifest in manifests))
    await client.close()  # type: ignore[no-untyped-call]  # the client's own


def await_ready(operator: MeasuredOperator, count: int) -> None:
    """Wait until the operator counts as many resources as Ready."""
    await_true(lambda: operator.read().total("infd_resources", 'state="ready"') >= count, "all resources are ready")


def await_idle(operator: MeasuredOperator) -> None:
    """Wait until the work queue is empty, and stays so."""

    def is_idle() -> bool:
        before = operator.read().total("infd_reconcile_total")
        time.sleep(QUIET_SECONDS / 5)
        now = operator.read()
        return now.total("infd_reconcile_total") == before and now.total("infd_workqueue_depth") == 0

    await_true(is_idle, "the work queue is empty")


def await_true(done: Callable[[], bool], what: str) -> None:
    """Wait, and print what for and how long: many resources take up to an hour.

    Raises:
        TimeoutError: it takes longer.
    """
    deadline = time.monotonic() + _LONGEST_SECONDS
    with step(f"waiting until {what}"):
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(what)
            time.sleep(_POLL_SECONDS)
