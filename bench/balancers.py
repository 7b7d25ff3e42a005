"""What `bench.router` compares: no load balancer, the router in several configurations, others; and their engines."""

import asyncio
import hashlib
import os
import re
import sys
import tempfile
from asyncio.subprocess import Process, create_subprocess_exec
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.rendered import CONFIG, rendered
from bench.rivals import BODY_RIVALS, KEY, RIVALS, Endpoint, running, script
from e2e.router.loopback import NAME_SERVER, Loopback
from e2e.router.names import Names
from inference_operator.router.process import PORT, TLS_PORT

EVERYTHING: Mapping[str, object] = {
    "keys": {"secretRef": {"name": "users"}, "requestsPerMinute": 1_000_000, "maxConcurrent": 100_000},
    "queue": {"maxSize": 512},
    "maxBodySize": "1Mi",
    "accessLog": "Enabled",
}
"""`spec.router` with all that a request passes. Not `usage`, which is off by default: `bench.usage` measures it."""
COMMIT = "812ec18"
"""What *router before* is, unless `--before` names another commit: its routers made a connection to an engine for each
request."""
TLS: Mapping[str, object] = {"tls": {"secretRef": {"name": "certificate"}}}
AFFINITY: Mapping[str, object] = {"strategy": "PrefixAffinity"}
PROXY_CORE, OTHER_CORE = "0", "1"
ENGINES = tuple(f"127.0.54.{number}" for number in range(1, 5))
DIRECT, ROUTER, BEFORE, WITH_AFFINITY = "direct", "router", "router before", "router affinity"
WITH_TLS = "router TLS"
ENGINE_PORT, _RIVAL_PORT = 8054, 8056
_PEERS = re.compile(r"server-template r \d+ ([^:]+):")
"""The name of all routers of a service. DNS names none here: the measured one is alone."""
_FRAME = '{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"message":{"content":"%s"}}]}'
ANSWER = _FRAME % ("x" * (600 - len(_FRAME)))
_ORIGIN = f"""
global
    nbthread 1
    maxconn 4000
defaults
    mode http
    option http-no-delay
    timeout client 60s
frontend engine
BINDS
    http-request wait-for-body time 10s if METH_POST
    http-request return status 200 content-type application/json string '{ANSWER}' if METH_POST
    http-request return status 200 content-type application/json string '{{"object":"list","data":[{{"id":"chat"}}]}}'
"""


def _closing(config: str) -> str:
    return config.replace("http-reuse always", "option httpclose")


def _new_to_engines(config: str) -> str:
    return config.replace("http-reuse always", "option http-server-close")


VARIANTS: Mapping[str, Callable[[str], str]] = {"httpclose": _closing, "new to engines": _new_to_engines}
_MORE: Mapping[str, Mapping[str, object]] = {WITH_AFFINITY: AFFINITY, WITH_TLS: TLS}
DEFAULT = (DIRECT, ROUTER, WITH_TLS, BEFORE, WITH_AFFINITY, *(rival.name for rival in RIVALS))
NAMES = (*DEFAULT, *VARIANTS)


def former(router: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same router with the names of fields that `COMMIT` knows."""
    keys = {name: value for name, value in router["keys"].items() if name != "secretRef"}
    return {**router, "keys": {**keys, "secretName": router["keys"]["secretRef"]["name"]}}


@dataclass(frozen=True, slots=True)
class Balancers:
    """Starts each of them.

    Args:
        root: the unpacked image of the router.
        command: the command of routers.
        before: the commit of `router before`.
    """

    root: Path
    command: list[str]
    before: str

    @asynccontextmanager
    async def started(self, name: str) -> AsyncIterator[Endpoint]:
        """Start one on its core; the engines run already."""
        engines = [f"http://{address}:{ENGINE_PORT}" for address in ENGINES]
        if name == DIRECT:
            yield Endpoint(engines[0], 0)
            return
        for rival in (*RIVALS, *BODY_RIVALS):
            if rival.name == name:
                with tempfile.TemporaryDirectory() as folder:
                    async with running(rival, engines, _RIVAL_PORT, PROXY_CORE, Path(folder)) as endpoint:
                        yield endpoint
                return
        async with named() as names, self.router(self._files(name), names, with_tls=name == WITH_TLS) as endpoint:
            yield endpoint

    def _files(self, name: str) -> dict[str, str]:
        if name == BEFORE:
            return rendered(former(EVERYTHING) if self.before == COMMIT else EVERYTHING, self.before)
        files = rendered({**EVERYTHING, **_MORE.get(name, {})})
        return {**files, CONFIG: VARIANTS.get(name, str)(files[CONFIG])}

    @asynccontextmanager
    async def router(
        self, files: Mapping[str, str], names: Names, *, with_tls: bool = False
    ) -> AsyncIterator[Endpoint]:
        """HAProxy in the router's image with these files, a key and a certificate."""
        for name, content in files.items():
            (self.root / "etc/haproxy" / name).write_text(content)
        names.others.update({host: [] for host in _PEERS.findall(files[CONFIG])})
        async with self.haproxy(names) as loopback:
            loopback.engine_port = ENGINE_PORT
            loopback.files = files
            ported = files[CONFIG].replace(":8000 ", f":{ENGINE_PORT} ")
            loopback.change = lambda _text: ported.replace(f":{PORT}", f":{loopback.port}").replace(
                f":{TLS_PORT}", f":{loopback.tls_port}"
            )
            loopback.renew_certificate()
            await loopback.start_router()
            await loopback.until_served(len(ENGINES))
            assert loopback.router is not None  # noqa: S101 - it has just been started
            url = f"https://127.0.0.1:{loopback.tls_port}" if with_tls else loopback.url
            yield Endpoint(url, loopback.router.pid)

    @asynccontextmanager
    async def haproxy(self, names: Names, **options: Any) -> AsyncIterator[Loopback]:  # noqa: ANN401 - as Loopback's
        """A HAProxy on its core that knows the key of a user, and is not started yet."""
        async with aiohttp.ClientSession() as session:
            pinned = ["taskset", "--cpu-list", PROXY_CORE, *self.command]
            loopback = Loopback(self.root, pinned, names=names, session=session, **options)
            loopback.write_keys(f"bench: {hashlib.sha256(KEY.encode()).hexdigest()}\n")
            try:
                yield loopback
            finally:
                await loopback.close()

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """Engines that answer at once."""
        binds = "\n".join(f"    bind {address}:{ENGINE_PORT}" for address in ENGINES)
        (self.root / "etc/haproxy/origin.cfg").write_text(_ORIGIN.replace("BINDS", binds))
        haproxy_command = ("haproxy", "-db", "-f", "/etc/haproxy/origin.cfg")
        async with _engines("chroot", "--userspec=99:99", str(self.root), *haproxy_command):
            yield

    @asynccontextmanager
    async def streaming(self) -> AsyncIterator[None]:
        """Engines that answer with streams."""
        async with _engines(sys.executable, "-m", "bench.streams", str(ENGINE_PORT), *ENGINES):
            yield


@asynccontextmanager
async def named() -> AsyncIterator[Names]:
    """A DNS server that names the engines."""
    _, names = await asyncio.get_running_loop().create_datagram_endpoint(Names, local_addr=(NAME_SERVER, 53))
    names.addresses.extend(ENGINES)
    try:
        yield names
    finally:
        await names.close()


@asynccontextmanager
async def _engines(*command: str) -> AsyncIterator[None]:
    process: Process = await create_subprocess_exec("taskset", "--cpu-list", OTHER_CORE, *command)
    try:
        async with asyncio.timeout(60):
            while not await _accepts(ENGINES[-1], ENGINE_PORT):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        yield
    finally:
        process.terminate()
        await process.wait()


async def _accepts(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, port)
    except OSError:
        return False
    writer.close()
    return True


def processes(group: int) -> list[tuple[int, float]]:
    """Process ID and used CPU in seconds, of each process of a group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if group and int(fields[2]) == group:
            found.append((int(stat.parent.name), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")))
    return found


def cpu_seconds(group: int) -> float:
    """CPU that the processes of a group have used."""
    return sum(seconds for _, seconds in processes(group))


def rss_mib(group: int) -> float:
    """Resident memory of the processes of a group."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid, _ in processes(group))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def known(names: Sequence[str]) -> Sequence[str]:
    """These names, if all of them exist and all programs that they need are installed."""
    if unknown := [name for name in names if name not in NAMES]:
        sys.exit(f"error: {', '.join(unknown)}: choose from {', '.join(NAMES)}")
    for rival in RIVALS:
        if rival.script and rival.name in names:
            script(rival.script)
    return names
