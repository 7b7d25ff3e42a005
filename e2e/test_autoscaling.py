"""Autoscaling on a real node: real vLLM behind real HAProxy, from zero to three engines and back."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import aiohttp
import pytest
import yaml

from e2e import stack
from e2e.cluster.handle import LocalCluster
from e2e.said import Say
from e2e.served import Served
from e2e.waiting import eventually

NAME = "scaled"
TARGET = 4
BUSY, QUIET = 16, 1
"""Clients at a time: more than three engines are wanted for, and fewer than two."""
TOKENS = 64
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
        served.await_routers(2)
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


async def test_engines_follow_the_requests_from_zero_to_three_and_back_and_no_request_is_lost(
    served: Served, say: Say
) -> None:
    assert _replicas(served) == 0
    clients = Clients(f"http://{served.address}/v1/completions")
    await asyncio.wait_for(clients.ask(), SOON)
    assert clients.answers == Counter(whole=1), "the first request starts an engine, which answers it"
    clients.come(BUSY)
    await _until(served, 3, ready=True)
    stack.wait_engines(served.cluster, NAME, 3)
    await clients.go()
    clients.come(QUIET)
    await _until(served, 1)
    await clients.go()
    await _until(served, 0)
    say(f"0 to 1 to 3 to 1 to 0 engines: {dict(clients.answers)}")
    assert set(clients.answers) == {"whole"}
