"""What reconciling costs: many InferenceDeployments at once, a restart, doing nothing, and one edit by hand.

    python -m bench.reconcile [--resources N] [--idle SECONDS] [--output text|json]

On a real API server whose nodes and pods exist in the API only (KWOK). *Applied* lasts from the first of the resources
being sent until the operator has made the last child, *Ready* until it counts all of them as ready. *The limit* is how
fast the same children, without owners, are applied by the operator's own client in another namespace afterwards, while
no operator runs: nothing is looked up, decided or told. Writes are counted by the operator's own metrics, without its
Lease; CPU and memory are those of its process, as the kernel counts them. *Restart* lasts from the start of a process
until it has listed everything and had a round for every resource; the bare client's listing of the same objects is its
limit, without starting and deciding anything. *Edit* is from the moment that the operator is told of a Service somebody
deleted until it has made it anew, one at a time, by the operator's own histogram; a percentile is interpolated within
its bucket.
"""

import asyncio
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import Figure, parser_of, shown
from bench.measured_operator import MeasuredOperator, running
from e2e.cluster import local
from e2e.cluster.binaries import Level
from e2e.cluster.handle import LocalCluster
from e2e.cluster.progress import step
from e2e.waiting import eventually
from inference_operator.api.resource import resource
from inference_operator.controller.cluster import NotFoundError
from inference_operator.controller.lister import watched_kinds
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import API_VERSION, INFERENCE_DEPLOYMENT, NODE, SERVICE, Manifest, Ref
from inference_operator.objects.names import MANAGED_SELECTOR
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.settings import Settings

RESOURCES, IDLE_SECONDS = 1000, 60
NAMESPACE, LIMIT = "bench", "limit"
SPEC: Manifest = {"model": {"source": "hf://Qwen/Qwen3-8B"}, "hardware": {"device": "CPU"}, "replicas": 1}
"""On CPUs, so that nodes with 8 GPUs do not bound how many there can be."""
CHILDREN, PODS = 6, 3
PODS_PER_NODE = 100
AT_ONCE = 16
"""Requests under way at a time, of the user and of the limit."""
EDITS = 100
POLL_SECONDS, LONGEST_SECONDS = 0.25, 3600
QUIET_SECONDS = 10
PER_SECOND, OF_LIMIT, WRITES, STATUSES, MEMORY_MIB, RESTART_SECONDS, IDLE_PERCENT = 50.0, 0.5, 6.0, 2.0, 120.0, 3.0, 1.0
"""The aims; of rates and of the share of the limit that much at least, of all others at most."""
AT_LEAST = ("resources per second", "of the limit")


def main(arguments: Sequence[str]) -> int:
    """Measure, and print."""
    parser = parser_of("python -m bench.reconcile", "What reconciling costs.")
    parser.add_argument("--resources", type=int, default=RESOURCES)
    parser.add_argument("--idle", type=float, default=IDLE_SECONDS, help="seconds of doing nothing")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(asked.resources, asked.idle, Path(folder))
    print(shown(figures, asked.output, at_least=AT_LEAST))
    return 0


def measured(count: int, idle: float, folder: Path) -> list[Figure]:
    """All figures, on a cluster of its own."""
    name = f"bench-{os.getpid()}"
    try:
        nodes = math.ceil(2 * PODS * count / PODS_PER_NODE)
        cluster = local.up(name, Level.CONTROL_PLANE, gpu_nodes=nodes, owned=True)
        root = Path(__file__).parents[1]
        cluster.kubectl("apply", "--server-side", "--filename", str(root / "crds" / "inferencedeployments.yaml"))
        for namespace in (NAMESPACE, LIMIT):
            cluster.kubectl("create", "namespace", namespace)
        with running(cluster, folder) as operator:
            figures = [*_many(cluster, operator, count), *_edits(cluster, operator, count), *_idle(operator, idle)]
            figures += _restart(operator, count)
        figures.append(Figure("limit: the same listed by the bare client", asyncio.run(_listing_seconds(cluster)), "s"))
        return [*figures[:2], *_limit(cluster, count, figures[0].value), *figures[2:]]
    finally:
        local.down(name, purge=True)


def _many(cluster: LocalCluster, operator: MeasuredOperator, count: int) -> list[Figure]:
    begun, idle_cpu = time.monotonic(), operator.cpu_seconds()
    start = operator.read()
    asyncio.run(_send(cluster, [_resource(number) for number in range(count)]))
    _until(lambda: operator.read().writes["child"] >= CHILDREN * count, "all children are made")
    applied = time.monotonic() - begun
    _until(lambda: operator.read().total("infd_resources", 'state="ready"') >= count, "all are ready")
    ready = time.monotonic() - begun
    _until(lambda: _rests(operator), "nothing is left to do")
    end = operator.read()
    writes = end.writes - start.writes
    return [
        Figure("applied: resources per second", count / applied, "1/s", PER_SECOND),
        Figure("all children applied", applied, "s"),
        Figure("all Ready, pods by KWOK on the same cores", ready, "s"),
        Figure("writes to children per resource", writes["child"] / count, "requests", WRITES),
        Figure("writes of status per resource", writes["status"] / count, "requests", STATUSES),
        Figure("rounds per resource", end.total("infd_reconcile_total") / count, "rounds"),
        Figure("operator's CPU until Ready, per resource", 1000 * (operator.cpu_seconds() - idle_cpu) / count, "ms"),
        Figure("operator's peak memory", operator.peak_mib(), "MiB", MEMORY_MIB),
        Figure("event to apply while all arrive, p50", end.percentile(0.5, start), "s"),
        Figure("event to apply while all arrive, p99", end.percentile(0.99, start), "s"),
    ]


def _edits(cluster: LocalCluster, operator: MeasuredOperator, count: int) -> list[Figure]:
    before = operator.read()
    asyncio.run(_break(cluster, min(EDITS, count)))
    _until(lambda: _rests(operator), "all is mended")
    after = operator.read()
    return [
        Figure("edit to apply, p50", after.percentile(0.5, before), "s"),
        Figure("edit to apply, p99", after.percentile(0.99, before), "s"),
    ]


def _idle(operator: MeasuredOperator, seconds: float) -> list[Figure]:
    time.sleep(QUIET_SECONDS)
    before, cpu = operator.read(), operator.cpu_seconds()
    time.sleep(seconds)
    spent = operator.cpu_seconds() - cpu
    writes = (operator.read().writes - before.writes).total()
    return [
        Figure(f"CPU of {seconds:g} idle seconds", 100 * spent / seconds, "%", IDLE_PERCENT),
        Figure(f"writes of {seconds:g} idle seconds", writes, "requests", 0),
    ]


def _restart(operator: MeasuredOperator, count: int) -> list[Figure]:
    operator.stop()
    begun = time.monotonic()
    operator.launch()
    eventually(operator.is_ready, seconds=LONGEST_SECONDS, what="the operator is ready")
    _until(lambda: operator.read().total("infd_reconcile_total") >= count, "every resource has had a round")
    took = time.monotonic() - begun
    _until(lambda: _rests(operator), "nothing is left to do")
    time.sleep(QUIET_SECONDS)
    return [
        Figure("restart", took, "s", RESTART_SECONDS),
        Figure("writes after a restart", operator.read().writes.total(), "requests", 0),
        Figure("peak memory after a restart", operator.peak_mib(), "MiB", MEMORY_MIB),
    ]


def _limit(cluster: LocalCluster, count: int, rate: float) -> list[Figure]:
    manifests = [manifest for number in range(count) for manifest in _children(number)]
    begun = time.monotonic()
    asyncio.run(_send(cluster, manifests))
    limit = count / (time.monotonic() - begun)
    return [
        Figure("limit: the same children by the bare client", limit, "1/s"),
        Figure("applied: of the limit", rate / limit, "", OF_LIMIT),
    ]


async def _listing_seconds(cluster: LocalCluster) -> float:
    """How long it takes to list what the operator lists at a start, and to keep nothing of it."""
    client = await connect(cluster.kubeconfig)
    kube, begun = KubeCluster(Api(client)), time.monotonic()
    for kind in (*watched_kinds(Settings()), NODE):
        async for _ in kube.pages(kind, selector=None if kind in (INFERENCE_DEPLOYMENT, NODE) else MANAGED_SELECTOR):
            pass
    took = time.monotonic() - begun
    await client.close()  # type: ignore[no-untyped-call]  # the client's own
    return took


async def _send(cluster: LocalCluster, manifests: Sequence[Manifest]) -> None:
    client = await connect(cluster.kubeconfig)
    kube, few = KubeCluster(Api(client)), asyncio.Semaphore(AT_ONCE)

    async def one(manifest: Manifest) -> None:
        async with few:
            await kube.apply(Ref.of(manifest), manifest, force=True)

    await asyncio.gather(*(one(manifest) for manifest in manifests))
    await client.close()  # type: ignore[no-untyped-call]  # the client's own


async def _break(cluster: LocalCluster, count: int) -> None:
    """Delete a Service of one resource after another, each when the one before is back."""
    client = await connect(cluster.kubeconfig)
    kube = KubeCluster(Api(client))
    for number in range(count):
        ref = Ref(SERVICE, NAMESPACE, _name(number))
        found = await kube.get(ref)
        if found is None:
            raise NotFoundError(str(ref))
        await kube.delete(ref, uid=found["metadata"]["uid"])
        while (await kube.get(ref)) is None:  # noqa: ASYNC110 - nothing here tells
            await asyncio.sleep(POLL_SECONDS / 10)
    await client.close()  # type: ignore[no-untyped-call]  # the client's own


def _children(number: int) -> list[Manifest]:
    """What the operator would make, of nobody, in the other namespace."""
    meta = {"name": _name(number), "namespace": LIMIT, "uid": "00000000-0000-4000-8000-000000000000"}
    asked = resource({**_resource(number), "metadata": {**meta, "generation": 1}})
    inputs = Inputs(resource=asked, children={}, pods=(), settings=Settings(), now=datetime.now(UTC))
    found = outcome(inputs).desired.values()
    return [_of_nobody(manifest) for manifest in found]


def _of_nobody(manifest: Manifest) -> Manifest:
    meta = {name: value for name, value in manifest["metadata"].items() if name != "ownerReferences"}
    return {**manifest, "metadata": meta}


def _resource(number: int) -> Manifest:
    meta = {"name": _name(number), "namespace": NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": INFERENCE_DEPLOYMENT.name, "metadata": meta, "spec": SPEC}


def _name(number: int) -> str:
    return f"qwen-{number}"


def _rests(operator: MeasuredOperator) -> bool:
    before = operator.read().total("infd_reconcile_total")
    time.sleep(QUIET_SECONDS / 5)
    now = operator.read()
    return now.total("infd_reconcile_total") == before and now.total("infd_workqueue_depth") == 0


def _until(done: Callable[[], bool], what: str) -> None:
    """Wait, and say for what and how long: of many resources that takes most of an hour."""
    deadline = time.monotonic() + LONGEST_SECONDS
    with step(f"waiting until {what}"):
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(what)
            time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
