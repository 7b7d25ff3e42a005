"""Cost of reconciling: many new InferenceDeployments, manual edits, an idle operator, and a restart.

    python -m bench.reconcile [--resources N] [--routers N] [--idle SECONDS] [--without-resync] [--output text|json]

Runs on a real API server. KWOK simulates nodes and pods. With thousands of resources, nearly all of the time goes to
the simulated pods: `--routers 1` has two of them for each resource instead of three. Each figure is also printed to
stderr when it is known.

- *New resources*: from the first create request until the operator has applied the last child. The *bare client* then
  applies the same children, without owners, in other namespaces while no operator runs. It uses the operator's own
  client, but makes no lookups, decisions or status writes. Its rate is the limit of this machine.
- *Writes*: counted by the operator's own metrics, without its Lease. CPU and memory are those of its process, from
  `/proc`.
- *Manual edit*: from the watch event of a deleted Service until the operator has created it again, one at a time, from
  the operator's own histogram. A percentile is interpolated within its bucket.
- *Edit during a resync*: from the answer to the delete request of a Service until it is there again, one at a time. An
  operator with another setting writes every object meanwhile, so that all keys wait in its work queue. Edits begin with
  its first reconcile: it does not hear of one from before its listing.
- *Idle*: from when the status of each resource has said that the metrics of simulated pods cannot be read.
- *Restart*: from the start of the process until every resource is reconciled once. *Listing alone* is how long the bare
  client takes to list the same objects.
"""

import asyncio
import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import Aim, Figure, as_known, at_least, at_most, exactly, parser_of, shown
from bench.many_resources import (
    NAMESPACE,
    QUIET_SECONDS,
    await_idle,
    await_ready,
    await_true,
    cluster_of,
    name_of,
    named,
    namespace_of,
    send,
    spec_of,
)
from bench.measured_operator import SETTINGS, MeasuredOperator, running
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.api.resource import resource
from inference_operator.controller.cluster import NotFoundError
from inference_operator.controller.lister import watched_kinds
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import (
    INFERENCE_DEPLOYMENT,
    NODE,
    POD,
    SERVICE,
    Kind,
    Manifest,
    Ref,
)
from inference_operator.objects.names import MANAGED_SELECTOR
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs

RESOURCES, ROUTERS, ENGINES, IDLE_SECONDS = 1000, 2, 1, 60
LIMIT = "limit"
"""Prefix of the namespaces of the bare client's objects."""
NO_UID = "00000000-0000-4000-8000-000000000000"
EDITS = 100
LOOK_SECONDS, START_SECONDS = 0.025, 3600
RATE_AIM = at_least(0.8)
"""Share of the bare client's rate. A rate alone depends on the machine."""
STATUS_WRITES_AIM = at_most(3)
"""Requests per new resource."""
EDIT_AIM = at_most(0.1)
"""Seconds from the event of a manual edit to its repair, p99."""
RESYNC_EDIT_AIM = at_most(1)
"""Seconds from a manual edit to its repair while all resources wait to be written, p99."""
RESYNC_SETTING = {"COMMON_LABELS": '{"example.com/resync": "1"}'}
"""A setting that changes every child."""
RESTART_AIM = at_most(2)
"""Multiple of the time that listing alone takes."""
MEMORY_AIM, MANY, MEMORY_OF_MANY_AIM = at_most(120), 5000, at_most(250)
"""MiB with up to a thousand resources, and from so many on."""
IDLE_CPU_AIM, NO_WRITES = at_most(1), exactly(0)
"""Per cent of one core, requests."""
UNREAD_SECONDS = 300
"""Simulated pods have no metrics. The status says so after two calm rounds of the scraper (120 s each), once for each
resource."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.reconcile", "Cost of reconciling.")
    parser.add_argument("--resources", type=int, default=RESOURCES, help="InferenceDeployments")
    parser.add_argument("--routers", type=int, default=ROUTERS, help="pods of routers of each")
    parser.add_argument("--idle", type=float, default=IDLE_SECONDS, help="seconds to measure an idle operator")
    parser.add_argument("--without-resync", action="store_true", help="leave out the edits during a resync")
    args = parser.parse_args(arguments)
    resources = Resources(args.resources, args.routers)
    with tempfile.TemporaryDirectory() as folder:
        found = measured(resources, args.idle, Path(folder), with_resync=not args.without_resync)
        figures = list(as_known(found))
    print(shown(figures, args.output))
    return 0


@dataclass(frozen=True, slots=True)
class Resources:
    """The InferenceDeployments of a run."""

    count: int
    routers: int
    """Pods of routers of each."""

    @property
    def bare(self) -> int:
        """As many of them as the bare client applies."""
        return min(self.count, RESOURCES)

    @property
    def spec(self) -> Manifest:
        """The spec of each."""
        return spec_of(self.routers)

    @property
    def kinds(self) -> Counter[Kind]:
        """The children of one; while it waits for something, such as an inspection of its model, it has others."""
        return Counter(Ref.of(manifest).kind for manifest in bare_children(0, self.spec))


def measured(resources: Resources, idle: float, folder: Path, *, with_resync: bool) -> Iterator[Figure]:
    """All figures, on a cluster of its own."""
    with cluster_of(resources.count, resources.routers + ENGINES, NAMESPACE, LIMIT) as cluster:
        with running(cluster, folder) as operator:
            new = _new_resources(cluster, operator, resources)
            yield from new
            yield from _edits(cluster, operator, resources.count)
            yield from _idle(operator, idle)
            restart_seconds, restart = _restart(operator, resources.count)
            yield from restart
        if with_resync:
            with running(cluster, folder, RESYNC_SETTING) as operator:
                yield from _edits_during_resync(cluster, operator, resources.count)
        listing_seconds = asyncio.run(_listing_seconds(cluster))
        yield Figure("restart: listing alone, by the bare client", listing_seconds, "s")
        yield Figure("restart: multiple of listing alone", restart_seconds / listing_seconds, "", RESTART_AIM)
        yield from _bare_client(cluster, resources, new[0].value)
        asyncio.run(_check_children(cluster, resources))


def memory_aim(count: int) -> Aim:
    """The aim for so many resources."""
    return MEMORY_OF_MANY_AIM if count >= MANY else MEMORY_AIM


def _new_resources(cluster: LocalCluster, operator: MeasuredOperator, resources: Resources) -> list[Figure]:
    count, children = resources.count, resources.kinds.total()
    begun, cpu_before = time.monotonic(), operator.cpu_seconds()
    start = operator.read()
    asyncio.run(send(cluster, [named(number, resources.spec) for number in range(count)]))
    await_true(lambda: operator.read().writes["child"] >= children * count, "all children are applied")
    applied = time.monotonic() - begun
    await_ready(operator, count)
    ready = time.monotonic() - begun
    await_idle(operator)
    end = operator.read()
    writes = end.writes - start.writes
    return [
        Figure("new resources per second", count / applied, "1/s"),
        Figure("new resources: until all children are applied", applied, "s"),
        Figure("new resources: until all are Ready", ready, "s"),
        Figure("writes of children per new resource", writes["child"] / count, "requests", exactly(children)),
        Figure("writes of status per new resource", writes["status"] / count, "requests", STATUS_WRITES_AIM),
        Figure("reconciles per new resource", end.total("infd_reconcile_total") / count, "reconciles"),
        Figure("CPU of the operator per new resource", 1000 * (operator.cpu_seconds() - cpu_before) / count, "ms"),
        Figure("peak memory of the operator", operator.peak_mib(), "MiB", memory_aim(count)),
        Figure("new resources: event to apply, p50", end.percentile(0.5, start), "s"),
        Figure("new resources: event to apply, p99", end.percentile(0.99, start), "s"),
    ]


def _edits(cluster: LocalCluster, operator: MeasuredOperator, count: int) -> list[Figure]:
    before = operator.read()
    asyncio.run(_delete_services(cluster, range(min(EDITS, count))))
    await_idle(operator)
    after = operator.read()
    return [
        Figure("manual edit to apply, p50", after.percentile(0.5, before), "s"),
        Figure("manual edit to apply, p99", after.percentile(0.99, before), "s", EDIT_AIM),
    ]


def _edits_during_resync(cluster: LocalCluster, operator: MeasuredOperator, count: int) -> list[Figure]:
    """The edits that were repaired before the last of the other resources was written."""
    took: list[float] = []
    await_true(lambda: operator.read().total("infd_reconcile_total") > 0, "the resync has begun")
    numbers = random.Random(36).sample(range(count), count)  # noqa: S311 - the same ones each time
    for number in numbers:
        [seconds] = asyncio.run(_delete_services(cluster, [number]))
        if operator.read().total("infd_workqueue_depth") == 0:
            break
        took.append(seconds)
    waited = sorted(took)
    return [
        Figure("edits during a resync", len(waited), "edits"),
        Figure("edit during a resync to repair, p50", waited[len(waited) // 2], "s"),
        Figure("edit during a resync to repair, p99", waited[math.ceil(0.99 * len(waited)) - 1], "s", RESYNC_EDIT_AIM),
    ]


def _idle(operator: MeasuredOperator, seconds: float) -> list[Figure]:
    time.sleep(UNREAD_SECONDS)
    before, cpu = operator.read(), operator.cpu_seconds()
    time.sleep(seconds)
    spent = operator.cpu_seconds() - cpu
    writes = (operator.read().writes - before.writes).total()
    return [
        Figure(f"CPU in {seconds:g} idle seconds", 100 * spent / seconds, "% of a core", IDLE_CPU_AIM),
        Figure(f"writes in {seconds:g} idle seconds", writes, "requests", NO_WRITES),
    ]


def _restart(operator: MeasuredOperator, count: int) -> tuple[float, list[Figure]]:
    """Seconds until every resource was reconciled once, and all figures of the restart."""
    operator.stop()
    begun = time.monotonic()
    operator.launch()
    eventually(operator.is_ready, seconds=START_SECONDS, what="the operator is ready")
    await_true(lambda: operator.read().total("infd_reconcile_total") >= count, "every resource is reconciled once")
    took = time.monotonic() - begun
    await_idle(operator)
    time.sleep(QUIET_SECONDS)
    return took, [
        Figure("restart: until every resource is reconciled", took, "s"),
        Figure("restart: writes", operator.read().writes.total(), "requests", NO_WRITES),
        Figure("restart: peak memory", operator.peak_mib(), "MiB", memory_aim(count)),
    ]


def _bare_client(cluster: LocalCluster, resources: Resources, rate: float) -> list[Figure]:
    numbers = range(resources.bare)
    manifests = [manifest for number in numbers for manifest in bare_children(number, resources.spec)]
    begun = time.monotonic()
    asyncio.run(send(cluster, manifests))
    limit = resources.bare / (time.monotonic() - begun)
    return [
        Figure("bare client: the same resources per second", limit, "1/s"),
        Figure("new resources: share of the bare client's rate", rate / limit, "", RATE_AIM),
    ]


async def _check_children(cluster: LocalCluster, resources: Resources) -> None:
    """Check that the operator and the bare client have made the same objects, and all that a resource needs.

    Raises:
        AssertionError: their figures cannot be compared.
    """
    client = await connect(cluster.kubeconfig)
    kube, found = KubeCluster(Api(client)), {NAMESPACE: Counter[Kind](), LIMIT: Counter[Kind]()}
    for kind in watched_kinds(SETTINGS):
        if kind not in (INFERENCE_DEPLOYMENT, POD):
            async for page in kube.pages(kind, selector=MANAGED_SELECTOR):
                for item in page.items:
                    found[item["metadata"]["namespace"].rpartition("-")[0]][kind] += 1
    await client.close()  # type: ignore[no-untyped-call]  # the client's own
    for prefix, count in ((NAMESPACE, resources.count), (LIMIT, resources.bare)):
        wanted = {kind: each * count for kind, each in resources.kinds.items()}
        kinds = found[prefix]
        if +kinds != wanted:
            raise AssertionError(f"the namespaces {prefix}-* have {+kinds} instead of {wanted}")


async def _listing_seconds(cluster: LocalCluster) -> float:
    """Seconds to list what the operator lists at a start, without keeping any object."""
    client = await connect(cluster.kubeconfig)
    kube, begun = KubeCluster(Api(client)), time.monotonic()
    for kind in (*watched_kinds(SETTINGS), NODE):
        async for _ in kube.pages(kind, selector=None if kind in (INFERENCE_DEPLOYMENT, NODE) else MANAGED_SELECTOR):
            pass
    took = time.monotonic() - begun
    await client.close()  # type: ignore[no-untyped-call]  # the client's own
    return took


async def _delete_services(cluster: LocalCluster, numbers: Sequence[int]) -> list[float]:
    """Delete the Services of these resources one by one; the seconds until the operator has created each one again."""
    client = await connect(cluster.kubeconfig)
    kube, took = KubeCluster(Api(client)), []
    for number in numbers:
        ref = Ref(SERVICE, namespace_of(number), name_of(number))
        service = await kube.get(ref)
        if service is None:
            raise NotFoundError(str(ref))
        await kube.delete(ref, uid=service["metadata"]["uid"])
        begun = time.monotonic()
        while (await kube.get(ref)) is None:  # noqa: ASYNC110 - no watch here
            await asyncio.sleep(LOOK_SECONDS)
        took.append(time.monotonic() - begun)
    await client.close()  # type: ignore[no-untyped-call]  # the client's own
    return took


def bare_children(number: int, spec: Manifest) -> list[Manifest]:
    """The children that the measured operator would apply, without owners, in the bare client's namespace."""
    meta = {"name": name_of(number), "namespace": namespace_of(number, LIMIT), "uid": NO_UID}
    parsed = resource({**named(number, spec), "metadata": {**meta, "generation": 1}})
    inputs = Inputs(resource=parsed, children={}, pods=(), settings=SETTINGS, now=datetime.now(UTC))
    return [_without_owner(manifest) for manifest in outcome(inputs).desired.values()]


def _without_owner(manifest: Manifest) -> Manifest:
    meta = {name: value for name, value in manifest["metadata"].items() if name != "ownerReferences"}
    return {**manifest, "metadata": meta}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
