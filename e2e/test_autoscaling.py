"""Autoscaling on a real node: real vLLM behind real HAProxy, from zero to three engines and back."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import aiohttp
import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.faults import kill_container, unreachable
from e2e.helpers.served_deployment import Served, metric
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say

NAME = "scaled"
TARGET = 4
BUSY, QUIET = 16, 1
"""Clients at a time: more than three engines are wanted for, and fewer than two."""
TOKENS = 64
ENGINE_PORT = 8000
WINDOW_SECONDS = 90.0
"""Three times as long as demand must be lower before engines go."""
SOON = 420.0
"""Limit in seconds for steps that take a minute on an idle machine: an engine's start, and a window."""

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def served(cluster: LocalCluster) -> Iterator[Served]:
    """An InferenceDeployment scaled to zero."""
    served = Served(cluster, NAME)
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = NAME
    resource["spec"]["replicas"] = 0
    resource["spec"]["autoscaling"] = {
        "minReplicas": 0,
        "maxReplicas": 3,
        "targetConcurrency": TARGET,
        "scaleDownDelay": "30s",
        "idleTimeout": "30s",
    }
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    try:
        _await_routers(served)
        yield served
    finally:
        served.kubectl("delete", f"infd/{NAME}", "--wait=true")
        served.await_gone()


@dataclass
class Clients:
    """Clients that ask again and again, each on new connections, and count what they get."""

    url: str
    answers: Counter[str] = field(default_factory=Counter)
    running: list[asyncio.Task[None]] = field(default_factory=list)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)

    def come(self, number: int) -> None:
        """Start so many clients."""
        self.leaving = asyncio.Event()
        self.running = [asyncio.create_task(self._client(self.leaving)) for _ in range(number)]

    async def go(self) -> None:
        """Wait until each client has its last answer."""
        self.leaving.set()
        await asyncio.gather(*self.running)

    async def ask(self) -> None:
        """Send one request, and count how it ended."""
        body = {"model": NAME, "prompt": "Tell me about otters", "max_tokens": TOKENS, "temperature": 0}
        connector, timeout = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(total=SOON)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.post(self.url, json=body) as answer,
            ):
                text = await answer.text()
                whole = answer.ok and json.loads(text)["choices"][0]["finish_reason"] in {"length", "stop"}
                self.answers["whole" if whole else f"{answer.status}: {text}"] += 1
        except (aiohttp.ClientError, TimeoutError) as error:
            self.answers[f"lost: {error!r}"] += 1

    async def _client(self, leaving: asyncio.Event) -> None:
        while not leaving.is_set():
            await self.ask()


def _replicas(served: Served) -> int:
    return int(served.kubectl("get", f"deployment/{NAME}-engine", "--output=jsonpath={.spec.replicas}"))


def _state(served: Served) -> str:
    return served.kubectl("get", f"infd/{NAME}", "--output=jsonpath={.status.autoscaling} {.status.conditions}")


async def _until(served: Served, replicas: int, *, ready: bool = False) -> None:
    """Wait until so many engines are wanted, and ready."""
    await asyncio.to_thread(
        eventually,
        lambda: _replicas(served) == replicas and (not ready or len(served.pods("engine")) == replicas),
        seconds=SOON,
        what=lambda: f"{replicas} engines: {_state(served)}",
    )


@dataclass
class Seen:
    """What happened during a test."""

    wanted: list[int] = field(default_factory=list)
    """Every number of engines that was wanted, in its order."""
    waiting: float = 0.0
    """Most requests that waited in engines at one time."""

    @property
    def peaks(self) -> int:
        """How often the number rose after it had fallen, or at first."""
        steps = [after > before for before, after in zip(self.wanted, self.wanted[1:], strict=False)]
        return sum(up and (place == 0 or not steps[place - 1]) for place, up in enumerate(steps))


@asynccontextmanager
async def _watched(served: Served) -> AsyncIterator[Seen]:
    """Note what happens until the block ends."""
    seen, over = Seen(), asyncio.Event()

    async def look() -> None:
        while not over.is_set():
            wanted = await asyncio.to_thread(_replicas, served)
            if seen.wanted[-1:] != [wanted]:
                seen.wanted.append(wanted)
            seen.waiting = max(seen.waiting, await asyncio.to_thread(_waiting, served))
            await asyncio.sleep(1)

    task = asyncio.create_task(look())
    try:
        yield seen
    finally:
        over.set()
        await task


def _waiting(served: Served) -> float:
    """Requests that wait in engines; one that does not answer counts as zero."""
    found = 0.0
    for address in served.pods("engine").values():
        with suppress(OSError, ValueError):
            found += metric(address, "vllm:num_requests_waiting{") if address else 0.0
    return found


def _await_routers(served: Served, replicas: int = 2) -> None:
    """Wait until the routers are as the present specification has them."""
    eventually(
        lambda: stack.conditions(served.cluster, NAME).get("RouterAvailable", {}).get("status") == "True",
        seconds=SOON,
        what=lambda: f"the routers serve: {_state(served)}",
    )
    if replicas:
        served.await_routers(replicas)


def _restart_operator(served: Served) -> None:
    """Kill the operator that works now; it begins anew without what it has seen."""
    kill_container(served.cluster, stack.leader(served.cluster), stack.SYSTEM)


def _patch(served: Served, spec: dict[str, object]) -> None:
    """Change the resource, and wait until the routers have the change."""
    served.kubectl("patch", "infd", NAME, "--type=merge", f"--patch={json.dumps({'spec': spec})}")
    _await_routers(served, 2 if spec.get("router") is None else 0)


async def _cycle(served: Served, clients: Clients, *, kill: bool) -> None:
    """From zero to one, to three, to one and to zero; the operator may be killed in each phase."""

    async def phase() -> None:
        if kill:
            await asyncio.to_thread(_restart_operator, served)

    assert _replicas(served) == 0
    first = asyncio.create_task(clients.ask())
    await _until(served, 1)
    await phase()
    await asyncio.wait_for(first, SOON)
    assert clients.answers == Counter(whole=1), "the first request starts an engine, which answers it"
    clients.come(BUSY)
    await _until(served, 3)
    await phase()
    await asyncio.to_thread(stack.wait_engines, served.cluster, NAME, 3)
    await clients.go()
    clients.come(QUIET)
    await phase()
    await _until(served, 1)
    await phase()
    await clients.go()
    await _until(served, 0)


@pytest.mark.parametrize(
    ("sequences", "kill"),
    [
        pytest.param(64, False, id="every request runs in an engine"),
        pytest.param(2, True, id="requests wait in HAProxy and in vLLM, and the operator is killed in each phase"),
    ],
)
async def test_engines_follow_the_requests_from_zero_to_three_and_back_and_no_request_is_lost(
    served: Served, say: Say, *, sequences: int, kill: bool
) -> None:
    _patch(served, {"engine": {"maxNumSeqs": sequences}})
    clients = Clients(f"http://{served.address}/v1/completions")
    async with _watched(served) as seen:
        await _cycle(served, clients, kill=kill)
    say(f"{sequences} sequences an engine: {seen.wanted} engines, {seen.waiting:.0f} waited, {dict(clients.answers)}")
    assert set(clients.answers) == {"whole"}
    assert seen.peaks == 1, seen.wanted
    assert (seen.waiting > 0) == (sequences < TARGET)


async def test_an_engine_stays_while_the_operator_cannot_read_its_metrics_and_goes_afterwards(
    served: Served, say: Say
) -> None:
    clients = Clients(f"http://{served.address}/v1/completions")
    await asyncio.wait_for(clients.ask(), SOON)
    (pod,) = served.pods("engine")
    operators = json.loads(served.cluster.kubectl("--namespace", stack.SYSTEM, "get", "pods", "--output=json"))["items"]
    addresses = [one["status"]["podIP"] for one in operators]
    with unreachable(served.cluster, pod, ENGINE_PORT, clients=addresses):
        told = await asyncio.to_thread(
            eventually, lambda: _missing(served), seconds=SOON, what=lambda: f"metrics are missing: {_state(served)}"
        )
        assert pod in told
        await asyncio.sleep(WINDOW_SECONDS)
        assert _replicas(served) == 1
    await _until(served, 0)
    say(f"metrics that the operator cannot read: the engine stays. {told}")
    assert set(clients.answers) == {"whole"}


def _missing(served: Served) -> str:
    condition = stack.conditions(served.cluster, NAME).get("ScalingActive", {})
    return str(condition["message"]) if condition.get("reason") == "MetricsMissing" else ""


async def test_with_external_routing_engines_follow_what_runs_and_waits_in_them(served: Served, say: Say) -> None:
    _patch(served, {"replicas": 1, "router": {"strategy": "External"}, "autoscaling": {"minReplicas": 1}})
    await _until(served, 1)
    await asyncio.to_thread(stack.wait_engines, served.cluster, NAME, 1)
    clients = Clients(f"http://{served.address}/v1/completions")
    await clients.ask()
    async with _watched(served) as seen:
        clients.come(BUSY)
        await _until(served, 3)
        await asyncio.to_thread(stack.wait_engines, served.cluster, NAME, 3)
        await clients.go()
        clients.come(QUIET)
        await _until(served, 1)
        await clients.go()
    say(f"External routing: {seen.wanted} engines, {dict(clients.answers)}")
    assert set(clients.answers) == {"whole"}
    assert seen.peaks == 1, seen.wanted
