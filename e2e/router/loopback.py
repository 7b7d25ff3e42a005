"""A router and stand-in engines on loopback, and the client that tests use."""

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
from asyncio.subprocess import Process, create_subprocess_exec
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from e2e import images
from e2e.helpers.free_ports import free_ports
from e2e.localkube.certificates import Authority, Identity
from e2e.router.names import Names
from inference_operator.api.router import KEYS_FILE, RouterSpec
from inference_operator.engines.programs import KEY_ENTRY
from inference_operator.engines.vllm.vllm import API_PATHS
from inference_operator.fleet.rollout_slots import TurnInputs
from inference_operator.manifest import Key, Owner
from inference_operator.objects.adapter_list import ADVERTISED
from inference_operator.objects.gateway_key import GATEWAY_KEY_ENTRY, GATEWAY_KEY_SECRET
from inference_operator.objects.names import ENGINE, GATEWAY, ROUTER, headless_service_name, service_host
from inference_operator.router.adapters import ADAPTERS_FOLDER
from inference_operator.router.deployment import haproxy_command, stop_hook
from inference_operator.router.engine_key import ENGINE_KEY_FOLDER
from inference_operator.router.entry import PEERS_SOCKET
from inference_operator.router.gateway_key import GATEWAY_KEY_FOLDER
from inference_operator.router.haproxy import config_files
from inference_operator.router.inputs import RouterInputs, Upstream
from inference_operator.router.keys import KEYS_FOLDER
from inference_operator.router.observe import METRIC_PREFIX, ROUTER_METRICS_PATH
from inference_operator.router.process import (
    CONFIG_FILE,
    CONFIG_FOLDER,
    HEALTH_PATH,
    METRICS_PORT_VARIABLE,
    METRICS_PORTS,
    POD_IPS_VARIABLE,
    PORT,
    PREFILL_PORT,
    TLS_PORT,
)
from inference_operator.router.tls import TLS_CERTIFICATE_FILE, TLS_FOLDER, TLS_KEY_FILE
from inference_operator.settings import Settings

ENGINES_HOST = "tiny-engines.default.svc.cluster.local"
NAME_SERVER = "127.0.53.1"
"""A loopback address without another DNS server: HAProxy queries port 53 only."""
REQUESTS = {f"{METRIC_PREFIX}{state}_requests" for state in ("running", "queued", "held")}
ROUTER_IMAGE = os.environ.get("ROUTER_IMAGE", "router")
LEAST_IMAGE = "router-3.2"
"""With the least version of HAProxy."""
START_SECONDS = 120.0
POLL_SECONDS = 0.05
ROUTER_USER = "99:99"
IDLE_SECONDS = 0.1
"""CPU time per second below which the HAProxies of a test are idle: they check health and ask DNS."""


def unpacked(folder: Path, image: str = ROUTER_IMAGE) -> list[str]:
    """Unpack the router's image as a root directory; returns the command of routers with few slots."""
    images.build([image])
    folder.mkdir()
    with tempfile.TemporaryFile() as file:
        images.stream(image, into=file)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            manifest = json.loads(_content(archive, "manifest.json"))[0]
            for layer in manifest["Layers"]:
                subprocess.run(["tar", "-x", "-C", str(folder)], input=_content(archive, layer), check=True)
    (folder / "etc/resolv.conf").write_text(f"nameserver {NAME_SERVER}\n")
    for mounted in ("run/haproxy", CONFIG_FOLDER.lstrip("/")):
        (folder / mounted).mkdir(mode=0o777, exist_ok=True)
    (folder / "run/haproxy").chmod(0o777)  # a volume in the pod
    return haproxy_command(slots=1)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a client; `status` 0 means no answer, `whole` a complete one."""

    status: int
    whole: bool = True
    body: str = ""
    retry_after: str | None = None
    lags: tuple[float, ...] = ()

    @property
    def error_code(self) -> str:
        """The code of an error in the OpenAI API's format."""
        code: str = json.loads(self.body)["error"]["code"]
        return code


@dataclass(slots=True)
class Engine:
    """A stand-in engine's process."""

    address: str
    port: int
    process: Process

    @property
    def url(self) -> str:
        """Its URL, without a path."""
        return f"http://[{self.address}]:{self.port}" if ":" in self.address else f"http://{self.address}:{self.port}"

    def refuse(self) -> None:
        """Accept no new connections; those that exist go on."""
        self.process.send_signal(signal.SIGUSR1)

    def accept(self) -> None:
        """Accept new connections again."""
        self.process.send_signal(signal.SIGUSR2)


@dataclass(slots=True)
class Loopback:
    """Starts, stops and queries the router, its engines and their DNS name."""

    root: Path
    command: list[str]
    names: Names
    session: aiohttp.ClientSession
    engines: list[Engine] = field(default_factory=list)
    router: Process | None = None
    twin: Process | None = None
    port: int = 0
    tls_port: int = 0
    metrics_port: int = 0
    twin_metrics_port: int = 0
    engine_port: int = 0
    slots: int = 32
    engine_max_concurrency: int = 256
    """The most requests that HAProxy sends to one engine at a time."""
    spec: RouterSpec = field(default_factory=RouterSpec)
    other_upstreams: tuple[Upstream, ...] = ()
    """Where the router sends requests beside `engines`."""
    prefill: Upstream | None = None
    """Where it sends prompts of engines."""
    prefill_port: int = 0
    model_names: tuple[str, ...] = ("chat",)
    """The served names."""
    component: str = ROUTER
    """`gateway`: the engines are the routers of models."""
    has_adapters: bool = False
    """Whether the router knows the names of adapters, and refuses others."""
    pod_ips: str = "127.0.0.1"
    """Addresses of the router's pod."""
    change: Callable[[str], str] = str
    """What a bench changes in the configuration, to compare."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Scripts of another commit, which a bench compares."""
    settings: Settings = field(default_factory=Settings)
    engine_key: str = ""
    """The key that engines ask for."""

    @property
    def reads_long_bodies(self) -> bool:
        """Whether this HAProxy has large buffers: 3.4 and newer."""
        version = subprocess.run(self.chrooted("haproxy", "-v"), capture_output=True, text=True, check=True).stdout
        return tuple(map(int, re.findall(r"[0-9]+", version)[:2])) >= (3, 4)

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """Where the router sends requests."""
        engines = Upstream(
            name=ENGINE,
            host=ENGINES_HOST,
            port=self.engine_port,
            health_path="/health",
            max_concurrency=self.engine_max_concurrency,
            model_names=self.model_names,
            api_paths=API_PATHS,
            has_adapters=self.has_adapters,
        )
        return (engines, *self.other_upstreams)

    @property
    def log(self) -> Path:
        """Log file of HAProxy."""
        return self.root.with_name("haproxy.log")

    @property
    def twin_log(self) -> Path:
        """Log file of the second HAProxy."""
        return self.root.with_name("twin.log")

    async def start_router(self) -> None:
        """Render the configuration with the current constants, and start HAProxy."""
        self.write_configuration()
        self.router = await self.start_haproxy(self.metrics_port, self.log)

    def write_configuration(self) -> None:
        """Render the configuration with the current constants, for ports that are free."""
        self.port, self.tls_port, self.metrics_port, engine_port, self.prefill_port = free_ports(5)
        self.engine_port = self.engine_port or engine_port
        inputs = RouterInputs(
            upstreams=self.upstreams,
            prefill=self.prefill,
            slots=self.slots,
            spec=self.spec,
            stated=self.spec,
            turn=TurnInputs(datetime.now(UTC)),
            drain_seconds=120,
            progress_deadline_seconds=600,
            owner=Owner(Key("default", "loopback"), "uid"),
            settings=self.settings,
            component=self.component,
            engine_key=GATEWAY_KEY_SECRET if self.component == GATEWAY else "engine-key" if self.engine_key else "",
        )
        if self.engine_key:
            folder = self.root / ENGINE_KEY_FOLDER.lstrip("/")
            folder.mkdir(exist_ok=True)
            (folder / KEY_ENTRY).write_text(self.engine_key)
        host = headless_service_name(inputs.name, ROUTER)
        self.names.others.setdefault(service_host(host, "default", cluster_domain=self.settings.cluster_domain), [])
        config = config_files(inputs)
        text = config[CONFIG_FILE].replace(f":{PORT}", f":{self.port}")
        text = text.replace(f"bind :{PREFILL_PORT}", f"bind :{self.prefill_port}")
        # Processes of tests share what is a volume of each one's own in pods.
        text = text.replace(PEERS_SOCKET, f'"{PEERS_SOCKET}-${{ROUTER}}-${{METRICS_PORT}}"')
        text = self.change(text.replace(f":{TLS_PORT}", f":{self.tls_port}"))
        for name, content in {**config, **self.files, CONFIG_FILE: text}.items():
            (self.root / "etc/haproxy" / name).write_text(content)

    def write_keys(self, text: str) -> None:
        """Write the keys file as the kubelet does: as a whole, by renaming."""
        folder = self.root / KEYS_FOLDER.lstrip("/")
        folder.mkdir(exist_ok=True)
        (folder / ".new").write_text(text)
        (folder / ".new").rename(folder / KEYS_FILE)

    @property
    def gateway_key(self) -> Path:
        """The file with the key of gateways."""
        return self.root / GATEWAY_KEY_FOLDER.lstrip("/") / GATEWAY_KEY_ENTRY

    def write_gateway_key(self, text: str) -> None:
        """Write the key of gateways as the kubelet does: as a whole, by renaming."""
        self.gateway_key.parent.mkdir(exist_ok=True)
        new = self.gateway_key.with_name(".new")
        new.write_text(text)
        new.rename(self.gateway_key)

    def write_adapters(self, text: str) -> None:
        """Write the list of adapters as the kubelet does: as a whole, by renaming."""
        folder = self.root / ADAPTERS_FOLDER.lstrip("/")
        folder.mkdir(exist_ok=True)
        (folder / ".new").write_text(text)
        (folder / ".new").rename(folder / ADVERTISED)

    def remove_adapters(self) -> None:
        """Remove the list of adapters."""
        (self.root / ADAPTERS_FOLDER.lstrip("/") / ADVERTISED).unlink()

    def renew_certificate(self, *, truncated: bool = False, other_key: bool = False) -> bytes:
        """Put a new certificate for localhost into the mounted Secret, as the kubelet does; returns it as DER."""
        authority = self.root.with_name("authority")
        signing = Authority(authority)
        signing.issue(Identity("router", "localhost", hosts=("localhost", "127.0.0.1")))
        if other_key:
            signing.issue_key("router")
        mounted = self.root / TLS_FOLDER.lstrip("/")
        version = mounted / f"..{time.time_ns()}"
        version.mkdir(parents=True)
        chain = (authority / "router.crt").read_text()
        beginning = "-----BEGIN CERTIFICATE-----\n"
        (version / TLS_CERTIFICATE_FILE).write_text(beginning if truncated else chain)
        (version / TLS_KEY_FILE).write_text((authority / "router.key").read_text())
        for file in version.iterdir():
            file.chmod(0o644)
            link = mounted / file.name
            if not link.is_symlink():
                link.symlink_to(f"..data/{file.name}")
        new = mounted / "..data_tmp"
        new.symlink_to(version.name)
        new.rename(mounted / "..data")
        return ssl.PEM_cert_to_DER_cert(chain)

    @property
    def authority(self) -> Path:
        """The certificate of the authority that signed the last certificate."""
        return self.root.with_name("authority") / "ca.crt"

    async def start_twin(self) -> None:
        """Start a second HAProxy beside the router, on the same port, as its pod does."""
        self.twin_metrics_port = self.twin_metrics_port or free_ports(1)[0]
        self.twin = await self.start_haproxy(self.twin_metrics_port, self.twin_log)

    async def start_haproxy(self, metrics_port: int, log: Path) -> Process:
        """Start a process with the configuration that is there."""
        with log.open("wb") as file:
            process = await create_subprocess_exec(
                *self.chrooted(*self.command, metrics_port=metrics_port),
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        await self.until_answers(f"http://127.0.0.1:{metrics_port}{HEALTH_PATH}")
        return process

    async def kill_twin(self) -> None:
        """SIGKILL to every process of the twin; returns once they are gone."""
        assert self.twin is not None  # noqa: S101 - a test's helper
        os.killpg(self.twin.pid, signal.SIGKILL)
        await self.twin.wait()
        deadline = time.monotonic() + START_SECONDS
        while _group_lives(self.twin.pid):
            assert time.monotonic() < deadline  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)

    def chrooted(self, *command: str, metrics_port: int = METRICS_PORTS[0]) -> list[str]:
        """A command line that runs a command as the router's container does."""
        environment = ["env", f"{METRICS_PORT_VARIABLE}={metrics_port}"]
        environment.append(f"{POD_IPS_VARIABLE}={self.pod_ips}")
        return [*environment, "chroot", f"--userspec={ROUTER_USER}", str(self.root), *command]

    async def start_engine(self, address: str = "") -> Engine:
        """Start an engine and add its address to DNS, as Kubernetes does for a ready pod."""
        address = address or f"127.0.54.{len(self.engines) + 1}"
        engine = await self._started(address, self.engine_port)
        self.names.addresses.append(address)
        return engine

    async def start_engine_of(self, upstream: Upstream, address: str) -> Engine:
        """Start an engine of another upstream, and add its address to the upstream's DNS name."""
        engine = await self._started(address, upstream.port)
        self.names.others[upstream.host].append(address)
        return engine

    async def restart_engine(self, engine: Engine) -> Engine:
        """Start an engine at the address of one that has ended."""
        return await self._started(engine.address, engine.port)

    async def _started(self, address: str, port: int) -> Engine:
        command = [sys.executable, str(Path(__file__).with_name("engine.py")), address, str(port)]
        engine = Engine(address, port, await create_subprocess_exec(*command))
        self.engines.append(engine)
        await self.until_answers(f"{engine.url}/health")
        return engine

    async def until_served(self, servers: int) -> None:
        """Wait until the router counts this many engines."""
        await self._until_backend("active_servers", servers)

    async def until_prefills(self, servers: int) -> None:
        """Wait until the router counts this many prefill engines."""
        await self._until(f'haproxy_backend_active_servers{{proxy="prefill"}} {servers}\n')

    async def until_twin_served(self, servers: int) -> None:
        """Wait until the twin counts this many engines."""
        await self._until_backend("active_servers", servers, port=self.twin_metrics_port)

    async def until_held(self, requests: int) -> None:
        """Wait until the router holds this many requests, or has them at an engine."""
        deadline = time.monotonic() + START_SECONDS
        while (held := _requests(await self.metrics(ROUTER_METRICS_PATH))) != requests:
            assert time.monotonic() < deadline, f"{held} requests; {self.log.read_text()}"  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)

    async def until_queued(self, requests: int) -> None:
        """Wait until this many requests queue for a slot at an engine."""
        await self._until_backend("current_queue", requests)

    async def until_connected(self, frontend: str, connections: int) -> None:
        """Wait until a frontend has this many connections, at both HAProxies together."""
        name, deadline = f'haproxy_frontend_current_sessions{{proxy="{frontend}"}}', time.monotonic() + START_SECONDS
        ports = [port for port in (self.metrics_port, self.twin_metrics_port) if port]
        while (open_ := sum([await self.metric(name, port=port) for port in ports])) < connections:
            assert time.monotonic() < deadline, open_  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)

    async def until_counted(self, engine: Engine, **wanted: int) -> None:
        """Wait until an engine has counted this."""
        deadline = time.monotonic() + START_SECONDS
        while not wanted.items() <= (counted := await self.counts(engine)).items():
            assert time.monotonic() < deadline, counted  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)

    async def until_started(self, requests: int) -> list[int]:
        """Wait until the engines have got this many requests; returns how many each has got."""
        deadline = time.monotonic() + START_SECONDS
        while sum(counts := [(await self.counts(engine))["started"] for engine in self.engines]) < requests:
            assert time.monotonic() < deadline, counts  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)
        return counts

    async def until_refused(self) -> None:
        """Wait until the router takes no new connections."""
        deadline = time.monotonic() + START_SECONDS
        while (answer := await self.ask()).status:
            assert time.monotonic() < deadline, answer  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)

    async def release(self, engine: Engine) -> None:
        """Let what an engine holds go on."""
        async with self.session.post(f"{engine.url}/release"):
            pass

    async def slow_down(self, engine: Engine, seconds: float) -> None:
        """Let each answer of the health path take this long."""
        async with self.session.post(f"{engine.url}/slow/{seconds}"):
            pass

    async def until_refusing(self, address: str, port: int) -> None:
        """Wait until nothing accepts new connections here."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                _, writer = await asyncio.open_connection(address, port)
            except OSError:
                return
            writer.close()
            assert time.monotonic() < deadline  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)

    async def checked_configuration(self) -> tuple[str, str]:
        """What HAProxy prints, to stdout and stderr, when it checks its configuration; nothing without a problem."""
        check = self.chrooted("haproxy", "-c", "-f", f"{CONFIG_FOLDER}/{CONFIG_FILE}")
        answer = await asyncio.to_thread(subprocess.run, check, capture_output=True, text=True, check=True)
        return answer.stdout, answer.stderr

    async def metrics(self, path: str = "/metrics", *, port: int = 0) -> str:
        """The own metrics of the router, or of the HAProxy with this metrics port."""
        async with self.session.get(f"http://127.0.0.1:{port or self.metrics_port}{path}") as response:
            return await response.text()

    async def counts(self, engine: Engine) -> dict[str, int]:
        """What an engine counted."""
        async with self.session.get(f"{engine.url}/stats") as response:
            counted: dict[str, int] = await response.json()
            return counted

    async def metric(self, name: str, *, port: int = 0) -> int:
        """The sum of one of the router's metrics, given with some labels or none."""
        lines = (line.rpartition(" ") for line in (await self.metrics(port=port)).splitlines())
        return sum(int(value) for key, _, value in lines if key.startswith(name) and value.isdigit())

    @property
    def url(self) -> str:
        """The router's URL, without a path."""
        return f"http://127.0.0.1:{self.port}"

    async def ask(self, session: aiohttp.ClientSession | None = None, **wanted: float) -> Answer:
        """Ask for a completion that behaves as wanted."""
        url = f"{self.url}/v1/completions"
        status = 0
        lags: list[float] = []
        try:
            async with (session or self.session).post(url, json=wanted) as response:
                status = response.status
                if "chunks" not in wanted or not response.ok:
                    body, retry_after = await response.text(), response.headers.get("Retry-After")
                    return Answer(status, body=body, retry_after=retry_after)
                async for line in response.content:
                    if line == b"data: [DONE]\n":
                        return Answer(status, lags=tuple(lags))
                    if line.startswith(b"data: "):
                        lags.append(time.time() - json.loads(line[6:])["sent"])
        except aiohttp.ClientError as error:
            return Answer(status, whole=False, body=str(error))
        return Answer(status, whole=False)

    def soft_stop(self) -> None:
        """Send the signal that the container runtime sends at the pod's end (STOPSIGNAL of the image)."""
        assert self.router is not None  # noqa: S101 - a test's helper
        self.router.send_signal(signal.SIGUSR1)

    async def stop_hook(self, *, drain_seconds: int) -> int:
        """Run the preStop hook of the router's container, as the kubelet does before `soft_stop`."""
        command = self.chrooted(*stop_hook(drain_seconds, 0), metrics_port=self.metrics_port)
        hook = await create_subprocess_exec(*command)
        return await hook.wait()

    async def close(self) -> None:
        """End every process."""
        started = [engine.process for engine in self.engines] + [p for p in (self.router, self.twin) if p]
        for process in started:
            if process.returncode is None:
                process.terminate()
            await process.wait()
        await self.names.close()

    async def until_checked(self, server: str, status: int) -> None:
        """Wait until the health check of a server slot got this status."""
        await self._until(f'haproxy_server_check_code{{proxy="engines",server="{server}"}} {status}\n')

    async def _until_backend(self, metric: str, value: int, *, port: int = 0) -> None:
        await self._until(f'haproxy_backend_{metric}{{proxy="engines"}} {value}\n', port=port)

    async def _until(self, wanted: str, *, port: int = 0) -> None:
        deadline = time.monotonic() + START_SECONDS
        while wanted not in await self.metrics(port=port):
            assert time.monotonic() < deadline, self.log.read_text()  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)

    @property
    def workers(self) -> list[int]:
        """The processes that serve: the children of each HAProxy's master."""
        masters = [process.pid for process in (self.router, self.twin) if process]
        return [int(pid) for one in masters for pid in Path(f"/proc/{one}/task/{one}/children").read_text().split()]

    async def until_idle(self) -> None:
        """Wait until the HAProxies compute nothing: less than a tenth of a core within a second."""
        deadline = time.monotonic() + START_SECONDS
        used = IDLE_SECONDS
        while used >= IDLE_SECONDS:
            assert time.monotonic() < deadline, f"{used:.2f} s of CPU within a second"  # noqa: S101 - a test's helper
            before = sum(map(cpu_seconds, self.workers))
            await asyncio.sleep(1)
            used = sum(map(cpu_seconds, self.workers)) - before

    async def until_answers(self, url: str) -> None:
        """Wait until a URL answers, whatever it says."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                async with self.session.get(url):
                    return
            except aiohttp.ClientError:
                printed = self.log.read_text() if self.log.exists() else ""
                assert time.monotonic() < deadline, printed  # noqa: S101 - a test's helper
                await asyncio.sleep(POLL_SECONDS)


def _requests(page: str) -> int:
    """Requests that a router has, of its own page. HAProxy counts one twice that goes through `again`."""
    samples = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    return sum(int(value) for name, _, value in samples if name.partition("{")[0] in REQUESTS)


def cpu_seconds(pid: int) -> float:
    """What a process has computed (proc(5), `utime` and `stime`)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None  # noqa: S101 - the archive's own manifest names it
    return file.read()
