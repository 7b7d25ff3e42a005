"""500 streams on a real node while a router is killed, a key is rotated and the configuration changes: counts by phase.

The engines are stand-ins whose streams end when the test releases them. Beside the streams, new requests arrive all the
time: none may be lost either, except those that a killed HAProxy has.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest

from e2e.deploy import stack
from e2e.helpers.fake_engines import resource_of_stand_ins
from e2e.helpers.faults import kill_container
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from e2e.test_keys import SYNC_SECONDS, created

NAME = "streamed"
STREAMS = 500
ENGINES, ROUTERS = 2, 2
SOON = 240.0
"""Limit in seconds for steps that take seconds on an idle machine."""
PAUSE_SECONDS = 0.2
"""Between two of the new requests."""
DONE = b"data: [DONE]"

pytestmark = pytest.mark.full


@dataclass(slots=True)
class Streams:
    """Streams that run, and the new requests beside them."""

    served: Served
    key: str
    started: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    """`whole`, `broken`, or the status of an answer that is none."""
    short: Counter[str] = field(default_factory=Counter)
    """The same of the new requests."""
    stopped: bool = False

    async def stream(self) -> None:
        """One stream, on a connection of its own."""
        seen = False
        try:
            async with self._session() as session, session.post(self.url, json=self._body(stream=True)) as answer:
                async for line in answer.content:
                    self.started += not seen
                    seen = True
                    if line.startswith(DONE):
                        self.ended["whole"] += 1
                        return
                self.ended["broken" if answer.ok else str(answer.status)] += 1
        except aiohttp.ClientError:
            self.ended["broken"] += 1

    async def short_requests(self) -> None:
        """New requests, one after the other, each on a new connection."""
        while not self.stopped:
            try:
                async with self._session() as session, session.post(self.url, json=self._body()) as answer:
                    await answer.read()
                    self.short[str(answer.status)] += 1
            except aiohttp.ClientError:
                self.short["broken"] += 1
            await asyncio.sleep(PAUSE_SECONDS)

    @property
    def url(self) -> str:
        return f"http://{self.served.address}/v1/completions"

    def _body(self, **more: object) -> dict[str, object]:
        return {"model": NAME, "prompt": "Hello", **more}

    def _session(self) -> aiohttp.ClientSession:
        timeout = aiohttp.ClientTimeout(total=None)
        headers = {"Authorization": f"Bearer {self.key}"}
        return aiohttp.ClientSession(headers=headers, timeout=timeout, connector=aiohttp.TCPConnector(force_close=True))


@pytest.fixture
def streamed(cluster: LocalCluster) -> Iterator[tuple[Served, str]]:
    """Two stand-in engines behind two routers that require a key, and a key."""
    served = Served(cluster, NAME)
    secret, key = created("alice")
    served.kubectl("apply", "--filename=-", input=secret)
    router = {"keys": {"secretRef": {"name": "users"}}}
    with resource_of_stand_ins(served, replicas=ENGINES, router=router, max_num_seqs=STREAMS):
        stack.wait_ready(cluster, NAME)
        stack.wait_engines(cluster, NAME, ENGINES)
        served.await_routers(ROUTERS)
        yield served, key
    served.kubectl("delete", "secret", "users")


@asynccontextmanager
async def running(served: Served, key: str) -> AsyncIterator[Streams]:
    """500 running streams during the block; afterwards they are released and have ended."""
    streams = Streams(served, key)
    tasks = [asyncio.create_task(streams.stream()) for _ in range(STREAMS)]
    await until(lambda: streams.started == STREAMS, lambda: f"{streams.started} streams have begun: {streams.ended}")
    short = asyncio.create_task(streams.short_requests())
    try:
        yield streams
    finally:
        streams.stopped = True
        await short
        async with aiohttp.ClientSession() as session:
            for address in served.pods("engine").values():
                async with session.post(f"http://{stack.authority(address, 8000)}/v1/completions", json={"release": 1}):
                    pass
        await asyncio.wait_for(asyncio.gather(*tasks), SOON)


async def until(look: Callable[[], bool], what: Callable[[], str] | str, seconds: float = SOON) -> None:
    """Wait without stopping the streams."""
    await asyncio.to_thread(eventually, look, seconds=seconds, what=what)


async def test_a_killed_router_breaks_only_its_own_of_500_streams(streamed: tuple[Served, str], say: Say) -> None:
    served, key = streamed
    async with running(served, key) as streams:
        await asyncio.to_thread(kill_container, served.cluster, min(served.pods("router")))
        await until(lambda: streams.ended["broken"] > 0, "the killed process breaks its streams")
        before = streams.short.copy()
        await until(lambda: streams.short["200"] >= before["200"] + 50, "new requests are answered")
        await asyncio.to_thread(served.await_routers, ROUTERS)
        later = streams.short - before
    say(f"a router killed: streams {dict(streams.ended)}, new requests after it {dict(later)}")
    broken = streams.ended["broken"]
    assert streams.ended == {"whole": STREAMS - broken, "broken": broken}
    assert 0 < broken < STREAMS * 2 / 3, "each of the four processes has about a quarter"
    assert set(later) == {"200"}


async def test_a_rotated_key_breaks_none_of_500_streams(streamed: tuple[Served, str], say: Say) -> None:
    served, key = streamed
    routers = set(served.pods("router"))
    async with running(served, key) as streams:
        secret, _ = created("bob")
        await asyncio.to_thread(served.kubectl, "apply", "--filename=-", input=secret)
        await until(lambda: streams.short["401"] >= 50, "the revoked key is refused", SYNC_SECONDS)
    say(f"a key rotated: streams {dict(streams.ended)}, new requests {dict(streams.short)}")
    assert streams.ended == {"whole": STREAMS}
    assert set(streams.short) == {"200", "401"}
    assert set(served.pods("router")) == routers


async def test_a_changed_configuration_breaks_none_of_500_streams(streamed: tuple[Served, str], say: Say) -> None:
    served, key = streamed
    old = set(served.pods("router"))
    async with running(served, key) as streams:
        await asyncio.to_thread(served.patch, {"router": {"queue": {"maxSize": 100}}})
        await until(lambda: len(set(served.pods("router")) - old) == ROUTERS, "both routers have successors")
        status = ("rollout", "status", f"deployment/{NAME}-router", "--timeout=180s")
        await asyncio.to_thread(served.kubectl, *status)
        assert streams.ended == {}
    say(f"configuration changed: streams {dict(streams.ended)}, new requests {dict(streams.short)}")
    assert streams.ended == {"whole": STREAMS}
    assert set(streams.short) == {"200"}
