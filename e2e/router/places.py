"""An engine in the test's process, which ends one request after the other as the test says, and tells their order."""

import asyncio
import time
from dataclasses import dataclass, field

from aiohttp import web

from e2e.router.loopback import POLL_SECONDS, START_SECONDS, Loopback

ADDRESS = "127.0.54.1"


@dataclass(slots=True)
class Places:
    """Requests in the order in which they came, by what their bodies begin with, and what may end."""

    started: list[str] = field(default_factory=list)
    ends: list[asyncio.Event] = field(default_factory=list)
    runner: web.AppRunner | None = None

    async def listen(self, loopback: Loopback) -> None:
        """Serve at an address that DNS names."""
        app = web.Application(client_max_size=2**24)
        app.router.add_get("/health", self._health)
        app.router.add_post("/v1/completions", self._hold)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, ADDRESS, loopback.engine_port, backlog=1024).start()
        loopback.names.addresses.append(ADDRESS)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _hold(self, request: web.Request) -> web.Response:
        who = (await request.text()).partition(" ")[0]
        ends = asyncio.Event()
        self.started.append(who)
        self.ends.append(ends)
        await ends.wait()
        return web.Response()

    async def until_started(self, number: int) -> None:
        """Wait until so many requests have come."""
        deadline = time.monotonic() + START_SECONDS
        while len(self.started) < number:
            assert time.monotonic() < deadline, self.started  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)

    async def next(self) -> str:
        """End the oldest request that runs; returns whose request came for it."""
        before = len(self.started)
        next(ends for ends in self.ends if not ends.is_set()).set()
        await self.until_started(before + 1)
        return self.started[before]

    async def close(self) -> None:
        """End everything."""
        for ends in self.ends:
            ends.set()
        if self.runner:
            await self.runner.cleanup()
