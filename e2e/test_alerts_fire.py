"""Every alert of the chart fires on a real fault on the node, and no other resource is named.

A real Prometheus has the scrape jobs of docs/how-to/monitoring.md and the chart's rules. All durations of the rules are
divided by `FASTER`, so that an alert about an hour fires in two minutes; e2e/router/test_alerts.py has the rules with
their own durations.
"""

import asyncio
import contextlib
import json
import re
import subprocess
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from e2e import images
from e2e.deploy import stack
from e2e.helpers.container_processes import container_processes
from e2e.helpers.faults import kill_container, paused, stopped
from e2e.helpers.node_status_gpus import NODE, gpus_of_kind
from e2e.helpers.served_deployment import Served
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.router.prometheus import Prometheus, documented_jobs
from e2e.runs.printed_figures import Say
from generators.engine_rules import RULES
from generators.metrics_reference import rules

pytestmark = pytest.mark.full

FASTER = 30
"""Durations of the rules are divided by this number: 10 minutes become 20 s, and an hour 2 minutes."""
SCRAPE_SECONDS = 1.0
FIRES_SECONDS = 480
"""Limit for an alert. The longest one takes 240 s: two of the shortened hours."""
IDLE, BUSY, STUCK, REFUSED, EDGE = "alert-idle", "alert-busy", "alert-stuck", "alert-refused", "alert-edge"
ROUTERS = (IDLE, BUSY, STUCK, EDGE)
MOVE_WAITS, MOVING = "InferenceMoveWaits", (BUSY, IDLE, EDGE)
"""The alert about engines and only routers on a cordoned node, and the resources that have such."""
OVERLAP = "InferenceOperatorsOverlap"
CRASHED_ROUTERS = ("InferenceRouterDown", "InferenceRouterRestarts")
"""The alerts about routers that crash while their resource is at zero."""
LATER = (MOVE_WAITS, *CRASHED_ROUTERS)
ROUTER_CONTAINERS = ("haproxy-1", "haproxy-2")
SMALL_CACHE = 2 * 2**20
"""The tiny model needs 1,024 bytes for each token: room for 2,048 tokens, so for about ten answers of 200."""
TOKENS, MOST_CLIENTS, CLIENTS_EACH_SECOND = 200, 400, 3
CERTIFICATE_DAYS = 3
STALL_SECONDS = 2.0
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def faster(text: str) -> str:
    """Rules with shorter durations: those in brackets, of `offset`, and of `for`.

    Windows of restarts stay: the kubelet's backoff between them is as long as ever.

    Examples:
        >>> faster("expr: rate(a[1h] offset 30m)\\nfor: 5m")
        'expr: rate(a[120s] offset 60s)\\nfor: 10s'
    """

    def shorter(found: re.Match[str]) -> str:
        return f"{found[1]}{int(found[2]) * UNITS[found[3]] // FASTER}s"

    return re.sub(r"((?<!restarts_total)\[|offset |for: )(\d+)([smhd])\b", shorter, text)


def sample(name: str, **spec: Any) -> Mapping[str, Any]:  # noqa: ANN401 - any JSON
    """The sample for CPUs with one router, and other fields of the spec."""
    resource: dict[str, Any] = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = name
    engine = {**resource["spec"]["engine"], **spec.pop("engine", {})}
    router = {"replicas": 1, "coldStart": {"timeout": "3s"}, **spec.pop("router", {})}
    resource["spec"] |= {"engine": engine, "router": router, **spec}
    return resource


def applied() -> list[Mapping[str, Any]]:
    """The resources: with a GPU, with a small KV cache, whose start hangs, whose name is taken, and with TLS."""
    args = ["--enforce-eager", f"--kv-cache-memory-bytes={SMALL_CACHE}"]
    on_gpu = {"hardware": {"device": "GPU"}, "parallelism": {"tensor": 1}}
    scaled = {"minReplicas": 1, "maxReplicas": 1, "targetConcurrency": 4}
    edge = {"tls": {"secretRef": {"name": EDGE}}, "keys": {"secretRef": {"name": f"{EDGE}-keys"}}}
    return [
        sample(IDLE, **on_gpu, engine={"image": images.reference("engine-cpu")}),
        sample(BUSY, autoscaling=scaled, engine={"args": args}),
        sample(STUCK),
        sample(REFUSED),
        sample(EDGE, replicas=0, router=edge),
    ]


@dataclass
class Node:
    """The cluster, and a Prometheus that scrapes its pods."""

    cluster: LocalCluster
    prometheus: Prometheus
    say: Say

    async def fires(self, alert: str, name: str = "") -> None:
        """Wait until an alert fires, for the resource of this name if there is one."""
        of = f'alertname="{alert}",alertstate="firing"' + (
            f',resource_namespace="default",name="{name}"' if name else ""
        )
        begin = time.monotonic()
        while not await self.prometheus.query(f"ALERTS{{{of}}}"):
            states = await self.prometheus.query("ALERTS")
            assert time.monotonic() < begin + FIRES_SECONDS, (alert, name, states)
            await asyncio.sleep(1)
        self.say(f"{alert} fires for {name or 'the operator'} after {time.monotonic() - begin:.0f} s")

    async def ever(self) -> set[tuple[str, str]]:
        """Every alert that has fired, with its resource."""
        series = await self.prometheus.query('max_over_time(ALERTS{alertstate="firing"}[1h])')
        return {(labels["alertname"], labels.get("name", "")) for labels, _ in series}


@contextmanager
def secrets(cluster: LocalCluster, folder: Path) -> Iterator[None]:
    """A certificate that ends soon, and a file of keys with a line that is no key."""
    key, certificate = folder / "tls.key", folder / "tls.crt"
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    where = ("-days", str(CERTIFICATE_DAYS), "-subj", "/CN=edge", "-keyout", key, "-out", certificate)
    subprocess.run([*made, *where], check=True, capture_output=True)
    cluster.kubectl("create", "secret", "tls", EDGE, f"--cert={certificate}", f"--key={key}")
    cluster.kubectl("create", "secret", "generic", f"{EDGE}-keys", "--from-literal=keys=alice: not-a-hash")
    try:
        yield
    finally:
        cluster.kubectl("delete", "secret", EDGE, f"{EDGE}-keys")


@contextmanager
def resources(cluster: LocalCluster) -> Iterator[None]:
    """All resources, with pods; the name of one engine's Deployment is taken."""
    taken = f"{REFUSED}-engine"
    cluster.kubectl("create", "deployment", taken, "--image=localhost/nosuch:1", "--replicas=0")
    cluster.kubectl("apply", "--filename=-", input=yaml.safe_dump_all(applied()))
    try:
        yield
    finally:
        cluster.kubectl("delete", "infd", IDLE, BUSY, STUCK, REFUSED, EDGE, "--wait=true")
        cluster.kubectl("delete", "deployment", taken)
        for name in (*ROUTERS, REFUSED):
            Served(cluster, name).await_gone()


@asynccontextmanager
async def hung_start(cluster: LocalCluster) -> AsyncIterator[None]:
    """The engine's process is stopped as soon as it runs, so that its start stays in one step."""

    def running() -> bool:
        with contextlib.suppress(ClusterError, LookupError, StopIteration):  # there is no pod, or no container yet
            return bool(container_processes(cluster, next(iter(stack.pods(cluster, STUCK)))))
        return False

    await asyncio.to_thread(eventually, running, seconds=300, what="the engine's process")
    with paused(cluster, next(iter(stack.pods(cluster, STUCK)))):
        yield


@asynccontextmanager
async def clients(cluster: LocalCluster, name: str, tokens: int, each_second: float) -> AsyncIterator[None]:
    """More and more clients that ask again and again."""
    url, over = f"http://{stack.address(cluster, name)}/v1/completions", asyncio.Event()
    body = {"model": name, "prompt": "otters", "max_tokens": tokens, "ignore_eos": True, "stream": True}
    connector = aiohttp.TCPConnector(limit=0)

    async def ask(session: aiohttp.ClientSession) -> None:
        while not over.is_set():
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.post(url, json=body) as answer:
                    await answer.read()
                    if answer.status == 503:
                        await asyncio.sleep(0.2)

    async def come(session: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
        for _ in range(MOST_CLIENTS):
            group.create_task(ask(session))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 1 / each_second)
                return

    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        group.create_task(come(session, group))
        try:
            yield
        finally:
            over.set()


@asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Work without an end, for the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def killed_again_and_again(
    cluster: LocalCluster, name: str, component: str = "engine", containers: Sequence[str] = ("",)
) -> AsyncIterator[None]:
    """The containers of all pods get SIGKILL whenever they run, as if they had too little memory."""

    async def kill() -> None:
        while True:
            for container in containers:
                with contextlib.suppress(ClusterError, ProcessLookupError, LookupError):
                    for pod in stack.pods(cluster, name, component):
                        await asyncio.to_thread(kill_container, cluster, pod, container=container)
            await asyncio.sleep(2)

    async with meanwhile(kill()):
        yield


@contextmanager
def status_refused(cluster: LocalCluster) -> Iterator[None]:
    """Writes of a status fail with 500: an admission webhook that does not answer."""
    name = "nobody-answers"
    rule = {
        "apiGroups": ["inference-operator.dev"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["inferencedeployments/status"],
    }
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    cluster.kubectl(
        "apply", "--filename=-", input=yaml.safe_dump({**kind, "metadata": {"name": name}, "webhooks": [webhook]})
    )
    try:
        yield
    finally:
        cluster.kubectl("delete", "validatingwebhookconfiguration", name)


@contextmanager
def no_operator(cluster: LocalCluster) -> Iterator[None]:
    """The operator's Deployment has no pod."""
    system = Served(cluster, stack.RELEASE, stack.SYSTEM)
    deployment = f"deployment/{stack.RELEASE}"
    before = system.kubectl("get", deployment, "--output=jsonpath={.spec.replicas}")
    system.kubectl("scale", deployment, "--replicas=0")
    try:
        yield
    finally:
        system.kubectl("scale", deployment, f"--replicas={before}")
        system.kubectl("rollout", "status", deployment, "--timeout=120s")


@asynccontextmanager
async def stalled_again_and_again(cluster: LocalCluster) -> AsyncIterator[None]:
    """The leader's process stands still for longer than the alert allows, and goes on before its Lease is lost."""
    processes = await asyncio.to_thread(container_processes, cluster, stack.leader(cluster), stack.SYSTEM)

    async def stop() -> None:
        while True:
            with stopped(processes):
                await asyncio.sleep(STALL_SECONDS)
            await asyncio.sleep(STALL_SECONDS)

    async with meanwhile(stop()):
        yield


@contextmanager
def leaving_without_successors(cluster: LocalCluster) -> Iterator[None]:
    """The only node is cordoned, and a quota refuses the pods of the successors.

    A successor that is pending ends after `surgeWaitSeconds`, before the alert. One that a quota refuses waits on.
    """
    cluster.kubectl("create", "quota", "no-successor", "--hard=pods=0")
    try:
        cluster.kubectl("cordon", NODE)
        yield
    finally:
        cluster.kubectl("uncordon", NODE)
        cluster.kubectl("delete", "quota", "no-successor")


@contextmanager
def change_without_a_canary(cluster: LocalCluster) -> Iterator[None]:
    """The owner changes a default of all routers, and the canary that shall change first does not exist."""
    annotation = "settings.routerDefaults.podTemplate.annotations.changed"
    try:
        stack.install_operator(cluster, {annotation: "yes", "settings.rollouts.canary": "default/absent"})
        yield
    finally:
        stack.install_operator(cluster)


@contextmanager
def another_operator(cluster: LocalCluster, name: str) -> Iterator[None]:
    """An older operator's account with the rights of one, which the status of a resource names."""
    account, role = "another-operator", f"--clusterrole={stack.RELEASE}"
    cluster.kubectl("create", "rolebinding", account, role, f"--serviceaccount=default:{account}")
    claim = {"account": f"system:serviceaccount:default:{account}", "since": "2000-01-01T00:00:00Z"}
    patch = f"--patch={json.dumps({'status': {'operator': claim}})}"
    try:
        cluster.kubectl("patch", "infd", name, "--subresource=status", "--type=merge", patch)
        yield
    finally:
        cluster.kubectl("delete", "rolebinding", account)


@asynccontextmanager
async def scraped(cluster: LocalCluster, folder: Path, say: Say) -> AsyncIterator[Node]:
    """A Prometheus with the faster rules."""
    shortened = folder / "rules.yaml"
    shortened.write_text(faster(RULES.read_text(encoding="utf-8")))
    async with aiohttp.ClientSession() as session:
        jobs = documented_jobs(cluster.kubeconfig)
        prometheus = await Prometheus.start(folder, jobs, session, seconds=SCRAPE_SECONDS, rules=shortened)
        try:
            yield Node(cluster, prometheus, say)
        finally:
            await prometheus.close()


EXPECTED = {
    ("InferenceStalled", REFUSED),
    ("InferenceCertificateEnds", EDGE),
    ("InferenceKeysInvalid", EDGE),
    ("InferenceStartStuck", STUCK),
    ("InferenceFirstTokenBudgetBurn", BUSY),
    ("InferenceKvCacheFull", BUSY),
    ("InferenceQueueGrowing", BUSY),
    ("InferenceScalingLimited", BUSY),
    ("InferenceGpusIdle", IDLE),
    ("InferenceErrorBudgetBurn", IDLE),
    ("InferenceNoEngine", IDLE),
    ("InferenceOperatorFails", ""),
    ("InferenceOperatorDown", ""),
    ("InferenceOperatorStalls", ""),
    ("InferenceRolloutStopped", ""),
    (OVERLAP, ""),
    *((alert, EDGE) for alert in CRASHED_ROUTERS),
    *((MOVE_WAITS, name) for name in MOVING),
}


async def test_every_alert_fires_on_its_fault_and_for_no_other_resource(
    cluster: LocalCluster, tmp_path: Path, say: Say
) -> None:
    with secrets(cluster, tmp_path), gpus_of_kind(cluster, 1, "NVIDIA-L4"), resources(cluster):
        async with hung_start(cluster):
            for name in (IDLE, BUSY):
                await asyncio.to_thread(stack.wait_ready, cluster, name)
            async with scraped(cluster, tmp_path, say) as node:
                for alert, name in [one for one in EXPECTED if one[1] in (REFUSED, EDGE) and one[0] not in LATER]:
                    await node.fires(alert, name)
                async with clients(cluster, BUSY, TOKENS, CLIENTS_EACH_SECOND):
                    # At once: a queue that has grown for long no longer grows by half of itself.
                    loaded = [one for one in EXPECTED if one[1] == BUSY and one[0] != MOVE_WAITS]
                    await asyncio.gather(*(node.fires(alert, name) for alert, name in loaded))
                with leaving_without_successors(cluster):
                    await asyncio.gather(*(node.fires(MOVE_WAITS, name) for name in MOVING))
                await node.fires("InferenceStartStuck", STUCK)
                await node.fires("InferenceGpusIdle", IDLE)
                async with clients(cluster, IDLE, 4, 2), killed_again_and_again(cluster, IDLE):
                    await node.fires("InferenceErrorBudgetBurn", IDLE)
                    await node.fires("InferenceNoEngine", IDLE)
                with status_refused(cluster):
                    cluster.kubectl("patch", "infd", EDGE, "--type=merge", '--patch={"spec":{"replicas":1}}')
                    await node.fires("InferenceOperatorFails")
                async with stalled_again_and_again(cluster):
                    await node.fires("InferenceOperatorStalls")
                with no_operator(cluster):
                    await node.fires("InferenceOperatorDown")
                with change_without_a_canary(cluster):
                    await node.fires("InferenceRolloutStopped")
                async with killed_again_and_again(cluster, EDGE, "router", ROUTER_CONTAINERS):
                    await asyncio.gather(*(node.fires(alert, EDGE) for alert in CRASHED_ROUTERS))
                with another_operator(cluster, EDGE):
                    await node.fires(OVERLAP)
                assert await node.ever() == EXPECTED


def test_every_alert_has_a_fault_on_the_node() -> None:
    assert {alert for alert, _ in EXPECTED} == {rule["alert"] for rule in rules() if "alert" in rule}
