"""Requests of many clients at once while engines are killed, one after the other."""

import asyncio
import io
import json
import ssl
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

from e2e.router.loopback import Engine, Loopback

ENGINES = 3
CLIENTS = 32
ANSWER_SECONDS = 0.05
"""How long an engine computes before its answer begins."""
HUNG_UP = "no answer"

KEPT, NEW, TLS = "HTTP/1.1, kept connections", "HTTP/1.1, new connections", "HTTP/1.1 over TLS"
HTTP_2 = "HTTP/2 over TLS"
"""As curl asks, which makes one connection for many requests."""
WAYS = (KEPT, NEW, TLS, HTTP_2)
WITH_TLS = frozenset({TLS, HTTP_2})


@dataclass(slots=True)
class EngineDeaths:
    """A load, and engines that die under it.

    Args:
        loopback: its router and engines have been started.
        way: one of `WAYS`.
        body_bytes: size of each request's body, about.
    """

    loopback: Loopback
    way: str
    body_bytes: int
    statuses: Counter[str] = field(default_factory=Counter)
    """Answers by status, without those to requests that are on their way."""
    kills: int = 0
    stopped: bool = False

    async def run(self, *, kills: int, at_least: int) -> None:
        """Kill engines in turn, and go on until this many requests were answered."""
        load = [asyncio.ensure_future(self._work()) for _ in range(1 if self.way == HTTP_2 else CLIENTS)]
        try:
            for number in range(1, kills + 1):
                await self._until_answered(at_least * number // (kills + 1))
                await self._kill(self.loopback.engines[0])
            await self._until_answered(at_least)
        finally:
            self.stopped = True
        await asyncio.gather(*load)

    async def _until_answered(self, number: int) -> None:
        async with asyncio.timeout(600):
            while self.statuses.total() < number:  # noqa: ASYNC110 - counted by all clients
                await asyncio.sleep(ANSWER_SECONDS)

    async def _kill(self, engine: Engine) -> None:
        """SIGKILL; the engine is then started anew at its address."""
        engine.process.kill()
        await engine.process.wait()
        self.loopback.engines.remove(engine)
        await self.loopback.restart_engine(engine)
        await self.loopback.until_served(ENGINES)
        self.kills += 1

    async def _work(self) -> None:
        if self.way == HTTP_2:
            while not self.stopped:
                self.statuses += await self._asked_by_curl()
            return
        connector = aiohttp.TCPConnector(limit=0, force_close=self.way == NEW, ssl=self._trust())
        async with aiohttp.ClientSession(connector=connector) as session:
            while not self.stopped:
                self.statuses[await self._asked(session)] += 1

    async def _asked(self, session: aiohttp.ClientSession) -> str:
        try:
            async with session.post(self._url(), data=io.BytesIO(self._body())) as answer:
                await answer.read()
                return str(answer.status)
        except aiohttp.ClientError:
            return HUNG_UP

    async def _asked_by_curl(self) -> Counter[str]:
        """Statuses of many requests on one connection."""
        command = ["curl", "--silent", "--http2", "--parallel", "--parallel-max", str(CLIENTS)]
        command += ["--cacert", str(self.loopback.authority), "--data-binary", "@-", "--output", "/dev/null"]
        command += ["--write-out", "%{http_code}\\n", f"{self._url()}?[1-{10 * CLIENTS}]"]
        process = await create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        printed, _ = await process.communicate(self._body())
        return Counter(HUNG_UP if line == "000" else line for line in printed.decode().split())

    def _url(self) -> str:
        root = f"https://localhost:{self.loopback.tls_port}" if self.way in WITH_TLS else self.loopback.url
        return f"{root}/v1/completions"

    def _body(self) -> bytes:
        return json.dumps({"after": ANSWER_SECONDS, "prompt": "x" * self.body_bytes}).encode()

    def _trust(self) -> ssl.SSLContext | bool:
        return ssl.create_default_context(cafile=str(self.loopback.authority)) if self.way in WITH_TLS else True


async def start(loopback: Loopback) -> None:
    """Start the router and the engines."""
    if loopback.spec.tls:
        loopback.renew_certificate()
    await loopback.start_router()
    for _ in range(ENGINES):
        await loopback.start_engine()
    await loopback.until_served(ENGINES)
