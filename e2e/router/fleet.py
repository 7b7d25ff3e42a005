"""Several routers on loopback, each with the processes of its pod, that find each other by DNS as in a cluster."""

import asyncio
import os
import re
import signal
import time
from asyncio.subprocess import Process, create_subprocess_exec
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random

import aiohttp

from e2e.router.loopback import START_SECONDS, Loopback
from inference_operator.router.process import CONFIG_FILE, HEALTH_PATH, METRICS_PORTS

Place = tuple[str, int]
"""A process: the address of its router, and its metrics port."""


def _with_addresses(text: str) -> str:
    """The configuration of a router that listens on its own address only, and on a port for each process."""
    text = re.sub(r"bind :\d+\n", 'bind "${ROUTER}:1${METRICS_PORT}"\n', text)
    return text.replace('bind :"${METRICS_PORT}"', 'bind "${ROUTER}:${METRICS_PORT}"')


@dataclass(slots=True)
class Fleet:
    """Routers at 127.0.60.1 and so on. Requests of a test choose the process that they go to."""

    loopback: Loopback
    processes: dict[Place, Process] = field(default_factory=dict)
    random: Random = field(default_factory=lambda: Random(1))  # noqa: S311 - a load
    admitted: int = 0
    refused: int = 0
    others: int = 0
    """Requests that got any other answer."""
    running: int = 0
    """Requests that are answered right now."""

    async def start(self, routers: int) -> None:
        """Write the configuration, and start these routers and an engine."""
        self.loopback.change = _with_addresses
        self.loopback.write_configuration()
        for number in range(1, routers + 1):
            await self.join(f"127.0.60.{number}")
        await self.loopback.start_engine()
        await self.until_known(routers)

    async def join(self, address: str) -> None:
        """Start a router; DNS names it at once, as it does for addresses that are not ready."""
        for port in METRICS_PORTS:
            command = ["env", f"ROUTER={address}", *self.loopback.command]
            log = self.loopback.root.with_name(f"{address}-{port}.log")
            with log.open("wb") as file:
                self.processes[address, port] = await create_subprocess_exec(
                    *self.loopback.chrooted(*command, metrics_port=port),
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                )
        for port in METRICS_PORTS:
            await self.loopback.until_answers(f"http://{address}:{port}{HEALTH_PATH}")
        self.name()

    def name(self, *strangers: str) -> None:
        """Let DNS name the routers that run, and these addresses of others."""
        self._names({*strangers, *(address for address, _ in self.processes)})

    def hide(self) -> None:
        """Let DNS name no router."""
        self._names(set())

    def _names(self, addresses: set[str]) -> None:
        text = (self.loopback.root / f"etc/haproxy/{CONFIG_FILE}").read_text()
        found = re.search(r"server-template r \d+ ([^:]+):", text)
        assert found  # noqa: S101 - a test's helper
        self.loopback.names.others[found[1]] = sorted(addresses)

    async def kill(self, address: str) -> None:
        """SIGKILL to every process of a router, as when its node dies; DNS names it no longer."""
        for place in [place for place in self.processes if place[0] == address]:
            process = self.processes.pop(place)
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        self.name()

    async def until_known(self, routers: int) -> None:
        """Wait until each process counts one engine, and knows this many routers."""
        for address, port in self.processes:
            deadline = time.monotonic() + START_SECONDS
            while True:
                page = await self._page(address, port)
                servers = dict(re.findall(r'haproxy_backend_active_servers{proxy="(\w+)"} (\d+)', page))
                if (servers["engines"], servers["router_peers"]) == ("1", str(routers)):
                    break
                assert time.monotonic() < deadline, page  # noqa: S101 - a test's helper
                await asyncio.sleep(0.2)

    async def _page(self, address: str, port: int) -> str:
        async with self.loopback.session.get(f"http://{address}:{port}/metrics") as answer:
            return await answer.text()

    async def load(self, headers: dict[str, str], weights: list[int], body: dict[str, float], pause: float) -> None:
        """Ask one process after the other, chosen by weight, without an end, and with a pause after each answer.

        Streams differ in their length: else all would end together.
        """
        while True:
            wanted = {
                key: number * (self.random.uniform(0.5, 1.5) if key == "gap" else 1) for key, number in body.items()
            }
            places = list(self.processes)
            address, port = self.random.choices(places, weights[: len(places)])[0]
            try:
                async with self.loopback.session.post(
                    f"http://{address}:1{port}/v1/completions", json=wanted, headers=headers
                ) as answer:
                    if answer.status == HTTPStatus.OK:
                        self.admitted += 1
                        self.running += 1
                        try:
                            await answer.read()
                        finally:
                            self.running -= 1
                    elif answer.status == HTTPStatus.TOO_MANY_REQUESTS:
                        self.refused += 1
                    else:
                        self.others += 1
            except aiohttp.ClientError:
                pass  # the router was killed
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """End every process."""
        for address in {address for address, _ in self.processes}:
            await self.kill(address)
