"""Requests per second through a router, with kept and with new connections of the clients, beside other configurations.

    python -m bench.router [--seconds N] [--output text|json]

Needs root, two cores and `wrk` (Debian package of this name). HAProxy of the router's image runs on the first core with
the configuration that the operator renders; wrk with 32 connections and the stand-in for an engine (the same HAProxy,
which reads the request and answers 600 bytes) on the second. Each configuration is measured in turn, in one run:

- *direct*: wrk asks the stand-in itself.
- *router*: as shipped. Clients keep their connections, and each request has its own to the engine.
- *httpclose*: a connection of the client for each request, as before.
- *inner hop*: clients keep their connections to a first proxy, which sends each request over a Unix socket to a second
  one. That one keeps connections to engines.
- *kept to engines*: HAProxy's default. It hides an engine's death from clients, so it is a limit and no candidate.
"""

import asyncio
import os
import re
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.figures import Figure, parser_of, shown
from e2e.router.loopback import NAME_SERVER, Loopback, unpacked
from e2e.router.names import Names

SECONDS = 3
CONNECTIONS = 32
BODIES_KIB = (2, 16, 64)
ENGINE = "127.0.54.1"
ANSWER = "x" * 600
PROXY_CORE, OTHER_CORE = "0", "1"
_RATE = re.compile(r"Requests/sec:\s+([0-9.]+)")
_COUNT = re.compile(r"([0-9]+) requests in")
_FAILED = re.compile(r"(Non-2xx|Socket errors).*")

ORIGIN = f"""
global
    nbthread 1
    maxconn 4000
defaults
    mode http
    option http-no-delay
    timeout client 60s
frontend engine
    bind {ENGINE}:PORT
    http-request wait-for-body time 10s if METH_POST
    http-request return status 200 content-type application/json string {ANSWER}
"""
INNER = """
backend inner
    server inner abns@inner
frontend inner
    bind abns@inner
    option http-keep-alive
    default_backend engines
"""


def _closing(config: str) -> str:
    return config.replace("option http-server-close", "option httpclose")


def _kept(config: str) -> str:
    return config.replace("option http-server-close", "option http-keep-alive")


def _hop(config: str) -> str:
    frontend, backends = config.split("\nbackend engines\n")
    backends = f"\nbackend engines\n    option http-keep-alive\n    http-reuse always\n{backends}"
    return frontend.replace("default_backend engines", "default_backend inner") + INNER + backends


CONFIGURATIONS: dict[str, Callable[[str], str]] = {
    "router": str,
    "httpclose": _closing,
    "inner hop": _hop,
    "kept to engines": _kept,
}


@dataclass(frozen=True, slots=True)
class Rate:
    """One measurement."""

    name: str
    body_kib: int
    kept: bool
    per_second: float
    cpu_us: float
    """The proxy's CPU for each request, in microseconds; 0 without a proxy."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.router", "Requests per second through a router.")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="time of each measurement")
    args = parser.parse_args(arguments)
    if not shutil.which("wrk"):
        sys.exit("error: wrk is missing; on Debian: apt-get install wrk")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        rates = asyncio.run(measured(root, unpacked(root), args.seconds))
    print(shown(figures(rates), args.output))
    return 0


def figures(rates: Sequence[Rate]) -> list[Figure]:
    """Rates, and the proxy's CPU."""
    return [
        figure
        for rate in rates
        for figure in (
            Figure(_title(rate), rate.per_second, "requests/s"),
            *([Figure(f"{_title(rate)}: CPU of the proxy", rate.cpu_us, "us/request")] if rate.cpu_us else []),
        )
    ]


def _title(rate: Rate) -> str:
    return f"{rate.name}, {rate.body_kib} KiB, {'kept' if rate.kept else 'new'} connections"


async def measured(root: Path, command: list[str], seconds: int) -> list[Rate]:
    """All configurations, one after the other."""
    rates = []
    for name, change in CONFIGURATIONS.items():
        loop = asyncio.get_running_loop()
        _, names = await loop.create_datagram_endpoint(Names, local_addr=(NAME_SERVER, 53))
        async with aiohttp.ClientSession() as session:
            pinned = ["taskset", "--cpu-list", PROXY_CORE, *command]
            loopback = Loopback(root, pinned, names=names, session=session, change=change)
            loopback.engine_max_concurrency = CONNECTIONS
            try:
                await loopback.start_router()
                origin = await _origin(loopback)
                try:
                    names.addresses.append(ENGINE)
                    await loopback.until_served(1)
                    rates += await _rates(loopback, name, seconds)
                finally:
                    origin.terminate()
                    await origin.wait()
            finally:
                await loopback.close()
    return rates


async def _origin(loopback: Loopback) -> Process:
    (loopback.root / "etc/haproxy/origin.cfg").write_text(ORIGIN.replace("PORT", str(loopback.engine_port)))
    pinned = ["taskset", "--cpu-list", OTHER_CORE, "haproxy", "-db", "-f", "/etc/haproxy/origin.cfg"]
    return await create_subprocess_exec(*loopback.chrooted(*pinned))


async def _rates(loopback: Loopback, name: str, seconds: int) -> list[Rate]:
    rates = []
    for body in BODIES_KIB:
        for kept in (True, False):
            if name == "router":  # once is enough
                url = f"http://{ENGINE}:{loopback.engine_port}"
                rates.append(await _rate(url, Rate("direct", body, kept, 0, 0), seconds, pid=None))
            pid = loopback.router.pid if loopback.router else None
            rates.append(await _rate(loopback.url, Rate(name, body, kept, 0, 0), seconds, pid=pid))
    return rates


async def _rate(url: str, asked: Rate, seconds: int, *, pid: int | None) -> Rate:
    script = f'wrk.method = "POST"; wrk.body = string.rep("x", {asked.body_kib * 1024})'
    script += "" if asked.kept else '; wrk.headers["Connection"] = "close"'
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        before = _cpu_seconds(pid)
        options = ["-t1", f"-c{CONNECTIONS}", f"-d{seconds}", "--script", file.name, f"{url}/v1/completions"]
        wrk = await create_subprocess_exec("taskset", "--cpu-list", OTHER_CORE, "wrk", *options, stdout=PIPE)
        printed = (await wrk.communicate())[0].decode()
        used = _cpu_seconds(pid) - before
    rate, count = _RATE.search(printed), _COUNT.search(printed)
    if not rate or not count or _FAILED.search(printed):
        sys.exit(f"error: {_title(asked)}: {printed}")
    return Rate(asked.name, asked.body_kib, asked.kept, float(rate[1]), used / int(count[1]) * 1e6)


def _cpu_seconds(group: int | None) -> float:
    """CPU that the processes of a group have used."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
