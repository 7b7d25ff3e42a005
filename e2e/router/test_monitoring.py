"""The dashboards' own queries, in a real Prometheus, after a load that this test made: they return what it explains."""

import asyncio
import hashlib
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509

from e2e.helpers.free_ports import free_port
from e2e.router.loopback import Loopback
from e2e.router.pictures import Source, Span, draw, with_gaps
from e2e.router.prometheus import SCRAPE_SECONDS, Prometheus, Target, static_jobs
from e2e.router.simulated import MODEL, started
from generators.dashboards import DASHBOARDS, FOLDER
from generators.metrics_reference import EXPORTED
from inference_operator.api.router import RouterSpec
from inference_operator.autoscaling.decision import Bound, Decision, Terms
from inference_operator.autoscaling.inputs import ScalingResult
from inference_operator.controller.cache import Cache
from inference_operator.hardware.offers import prices
from inference_operator.manifest import API_VERSION, KIND, Key, Manifest
from inference_operator.objects.names import ENGINE, labels, workload_name
from inference_operator.router.observe import ROUTER_METRICS_PATH
from inference_operator.settings import Settings
from inference_operator.telemetry.http import serve_health
from inference_operator.telemetry.metrics import LEADER, NODE_GPUS, RESOURCE_METRICS, RESOURCES

ENGINES = ("127.0.54.1", "127.0.54.2")
REQUESTS, AT_ONCE, TOKENS = 300, 20, 24
WITHOUT_KEY = 30
BEGIN_SECONDS, SETTLED_SECONDS = 60.0, 60.0
PRICE, GPUS, GPUS_OF_NODES, MOST, TARGET = 2.5, 4, 16, 6, 8
TOLERANCE = 0.05
REST_SECONDS = 6.0
"""After the load: a rate adds half a scrape interval before the begin of a series, 5 % of a short slow one."""
WINDOW_SECONDS = 300
"""Longer than the test, so that a rate over it counts every request once."""
ROUTER = {
    "usage": "Enabled",
    "strategy": "PrefixAffinity",
    "keys": {"secretRef": {"name": "api-keys"}},
    "metrics": {"users": True},
    "tls": {"secretRef": {"name": "tls"}},
}
USER, KEY = "alice", "sk-alice"
OF = {"resource_namespace": "default", "name": MODEL}
NOW = datetime.now(UTC)
RATE_SECONDS = 8.0
"""The window of rates in pictures, whose load changes within seconds."""
FIRST_ROWS = 24
"""Units of Grafana's grid that the picture of the README has: three rows of panels."""
QUIET_SECONDS, LOAD_STEP_SECONDS, START_SECONDS, DRAIN_SECONDS = 6.0, 16.0, 6.0, 5.0
"""Of the pictures: before the load, of one number of clients, of an engine, and until one that leaves has ended."""
PICTURED = {name: f"127.0.54.{number}" for number, name in enumerate("abcdef", 1)}
SLOW = {"SIMULATOR_DECODE_STEP_SECONDS": "0.02", "SIMULATOR_KV_CACHE_TOKENS": "6000"}
"""Engines that two cores simulate side by side, and that a few clients fill."""
PNG = b"\x89PNG\r\n"

NOTHING_TO_SHOW = {
    "fleet: Problems",
    "fleet: GPUs without requests",
    "fleet: Use of GPUs",
    "fleet: Engines without a node",
    "fleet: Requests that wait",
    "fleet: Router restarts",
    "fleet: Gateways: requests",
    "fleet: Gateways: refused requests and errors",
    "fleet: Gateways: fallbacks",
    "fleet: Gateways: waits",
    "service: Restarts",
    "router: Requests of adapters",
    "router: Requests over a limit",
    "router: Answers whose tokens are not counted",
    "router: Prompts by where they were computed",
    "router: Time at prefill engines, and until the first token",
    "router: KV caches from prefill engines",
    "operator: Errors",
}
"""Panels about faults, adapters, gateways, a second role, or of another exporter: without them they are empty."""
NEEDS_AN_API_SERVER = {
    "operator: Requests to the API server",
    "operator: Watches",
    "operator: Scrapes",
    "operator: Optional kinds",
}
"""Metrics with labels that an operator has once it has asked its API server."""
NEEDS_RECONCILES = {"operator: Times"}
"""Without a reconcile, its quantiles are no numbers."""

SWITCHED_OFF = {"service: Hits in the host's memory", "service: Guessed tokens that are accepted"}
"""Their shares are of nothing, which pictures leave out."""

NEEDS_MORE = {"operator: Reconciles, {{result}}", "service: Guessed tokens that are accepted, accepted"}
"""Series that begin with the first reconcile, or with a draft, beside others of the same panel."""

Values = dict[str, float]


def pod(name: str, *, ready: bool, leaves: bool = False) -> Manifest:
    """An engine pod on a node, as the kubelet reports it."""

    def at(seconds: int) -> str:
        return (NOW + timedelta(seconds=seconds)).isoformat()

    states = {"PodScheduled": ("True", 2), "Ready": ("True" if ready else "False", 62)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": labels(MODEL, ENGINE),
            "creationTimestamp": at(0),
            "resourceVersion": str(10 + ready + leaves),
            **({"deletionTimestamp": at(600)} if leaves else {}),
        },
        "spec": {"nodeName": "node-1"},
        "status": {
            "conditions": [{"type": t, "status": s, "lastTransitionTime": at(n)} for t, (s, n) in states.items()],
            "containerStatuses": [{"name": ENGINE, "restartCount": 0, "state": {"running": {"startedAt": at(12)}}}],
        },
    }


def resource(version: int, *, desired: int = len(ENGINES), step: str = "", rolls: bool = False) -> Manifest:
    """An InferenceDeployment that serves, as the operator last wrote it."""
    conditions = [{"type": "Ready", "status": "True", "reason": "Serving"}]
    conditions += [{"type": "Reconciling", "status": "True", "reason": "RollingOut"}] * rolls
    plan = {"device": "GPU", "gpu": "H100-80GB", "gpusPerReplica": GPUS // len(ENGINES)}
    status = {"conditions": conditions, "plan": plan, "startup": {"pod": "a", "step": step}}
    meta = {"name": MODEL, "namespace": "default", "uid": "u", "resourceVersion": str(version)}
    spec = {"model": {"source": "hf://org/model"}, "replicas": desired, "autoscaling": {"maxReplicas": MOST}}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": spec, "status": status}


@pytest.fixture
async def cache() -> AsyncIterator[Cache]:
    """The cache of an operator whose page shows one resource with two engines that start."""
    cache = Cache(Settings())
    cache.put(resource(1, step="LoadingWeights"))
    workload = {"name": workload_name(MODEL, ENGINE), "namespace": "default", "labels": labels(MODEL, ENGINE)}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**workload, "resourceVersion": "1"}}
    cache.put({**deployment, "spec": {}})
    for name in ("a", "b"):
        cache.put(pod(name, ready=False))
    RESOURCES.counts = cache.states
    RESOURCE_METRICS.resources, RESOURCE_METRICS.prices = cache.figures, prices([f"H100:8@{PRICE}"])
    decision = Decision(len(ENGINES), Bound.DEMAND, Terms(steady=6, headroom=5, backlog=1), TARGET)
    RESOURCE_METRICS.scaling = {Key("default", MODEL): ScalingResult(decision)}.get
    NODE_GPUS.counts = lambda: {"H100-80GB": GPUS_OF_NODES}
    LEADER.set(1)
    yield cache
    RESOURCES.counts, RESOURCE_METRICS.resources, RESOURCE_METRICS.prices = dict, tuple, {}
    RESOURCE_METRICS.scaling, NODE_GPUS.counts = lambda _: None, dict
    LEADER.set(0)


def targets(loopback: Loopback, operator: int, engines: Collection[str]) -> list[Target]:
    """What the PodMonitors select, with their labels and parameters."""
    ports = (loopback.metrics_port, loopback.twin_metrics_port)
    scopes = {"scope": ("frontend", "backend")}
    return [
        Target(f"127.0.0.1:{operator}", {"pod": "operator", "namespace": "inference-operator-system"}),
        *(Target(f"{one}:{loopback.engine_port}", {**OF, "pod": one}) for one in engines),
        *(Target(f"127.0.0.1:{port}", {**OF, "pod": "router"}, parameters=scopes) for port in ports),
        *(Target(f"127.0.0.1:{port}", {**OF, "pod": "router"}, ROUTER_METRICS_PATH) for port in ports),
    ]


@dataclass(slots=True)
class Load:
    """Requests to the router, and what their answers told."""

    loopback: Loopback
    answered: int = 0
    refused: int = 0
    unauthorized: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    certificate_days: float = 0

    async def ask(self, session: aiohttp.ClientSession, model: str) -> None:
        """Ask once for a stream; the engines refuse another model than theirs."""
        text = f"{self.answered % 7} " + "a prompt that several clients send at once. " * 20
        body = {"model": model, "prompt": text, "max_tokens": TOKENS, "ignore_eos": True}
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        url, headers = f"{self.loopback.url}/v1/completions", {"Authorization": f"Bearer {KEY}"}
        async with session.post(url, json=body, headers=headers) as answer:
            assert answer.status == (200 if model == MODEL else 404), await answer.text()
            events = (await answer.text()).split("\n\n")
        if model != MODEL:
            self.refused += 1
            return
        usage = json.loads(events[-3].removeprefix("data: "))["usage"]  # before `[DONE]` and what follows it
        self.answered += 1
        self.prompt_tokens += usage["prompt_tokens"]
        self.generated_tokens += usage["completion_tokens"]

    async def ask_often(self, requests: int) -> None:
        """Ask for both models, a few times at once."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(model: str) -> None:
            async with turns:
                await self.ask(self.loopback.session, model)

        await asyncio.gather(*(ask(model) for _ in range(requests) for model in (MODEL, "unknown")))
        for _ in range(WITHOUT_KEY):
            async with self.loopback.session.post(f"{self.loopback.url}/v1/completions", json={}) as answer:
                assert answer.status == 401, await answer.text()
            self.unauthorized += 1

    async def ask_for(self, seconds: float, at_once: int) -> None:
        """Clients that ask again and again."""
        end = time.monotonic() + seconds

        async def client() -> None:
            while time.monotonic() < end:
                await self.ask(self.loopback.session, MODEL)

        await asyncio.gather(*(client() for _ in range(at_once)))

    async def begin(self, prometheus: Prometheus) -> None:
        """Ask until Prometheus has the series of both processes: it does not count what was before a series' begin."""
        series = "count(inference_operator_router_requests_total)"
        deadline = time.monotonic() + BEGIN_SECONDS
        while [value for _, value in await prometheus.query(series)] != [4.0]:
            assert time.monotonic() < deadline
            async with aiohttp.ClientSession() as session:
                for model in (MODEL, "unknown"):
                    await self.ask(session, model)
            await asyncio.sleep(SCRAPE_SECONDS)


async def shown(prometheus: Prometheus) -> tuple[Mapping[str, Values], set[str]]:
    """What each panel shows now, as values by legend; and the legends whose queries return no series."""
    found, empty = dict[str, Values](), set[str]()
    for name, board in DASHBOARDS.items():
        for panel in board.panels:
            title = f"{name}: {panel.title}"
            for legend, query in panel.queries.items():
                series = await prometheus.query(_in_the_window(query))
                form = legend.replace("{{", "{").replace("}}", "}")
                found.setdefault(title, {}).update(
                    {form.format_map(defaultdict(str, one)).strip(): v for one, v in series}
                )
                if not series:
                    empty.add(f"{title}, {legend}")
    return found, empty


def _in_the_window(query: str) -> str:
    variables = {
        "$__rate_interval": f"{WINDOW_SECONDS}s",
        "$cluster": ".*",
        "$resource_namespace": "default",
        "$name": MODEL,
    }
    for name, value in variables.items():
        query = query.replace(name, value)
    return query


def explained(load: Load) -> Mapping[str, Values]:
    """What the panels must show."""
    a_second = 1 / WINDOW_SECONDS
    answered, refused, unauthorized = (n * a_second for n in (load.answered, load.refused, load.unauthorized))
    prompt, generated = load.prompt_tokens * a_second, load.generated_tokens * a_second
    cost = GPUS * PRICE
    per_million = cost / (load.prompt_tokens + load.generated_tokens) * 1e6
    engines = {"desired": 2.0, "ready": 2, "starting": 0, "unscheduled": 0, "terminating": 0, "maxReplicas": MOST}
    return {
        "service: Requests": {
            "2xx": answered,
            "4xx": refused + unauthorized,
            "5xx": 0,
            "401, in 4xx": unauthorized,
            "429, in 4xx": 0,
        },
        "service: Error budget left": {"left": 1},
        "service: Tokens per second": {"prompt": prompt, "generated": generated},
        "service: Ends of answers": {"length": answered},
        "service: Requests that miss an objective": {"5xx": 0, "late first token": 0},
        "service: Engines": engines,
        "service: Demand that autoscaling sees": {
            "steady": 6,
            "headroom": 5,
            "backlog": 1,
            "ready engines x target": len(ENGINES) * TARGET,
        },
        "service: What sets the number of engines": {"demand": 1},
        "service: Start of the last engine": {"node": 2, "prepare": 10, "load": 50},
        "service: Start under way": {"LoadingWeights": 1},
        "service: Conditions": {"Ready=True: Serving": 1},
        "service: Cost per hour": {"currency per hour": cost},
        "service: Cost per million tokens": {"currency per million tokens": per_million},
        "fleet: Models": {"Engines": 2, "GPUs": GPUS, "Errors": 0, "Per million tokens": per_million},
        "fleet: Resources": {"ready": 1, "progressing": 0, "stalled": 0},
        "fleet: GPUs": {"H100-80GB allocated": GPUS, "H100-80GB pending": 0, "H100-80GB of nodes": GPUS_OF_NODES},
        "fleet: Engines without progress": {"no progress": 2, "replaced": 1},
        "fleet: Cost per hour": {"default": cost},
        "fleet: Cost per million tokens": {f"default/{MODEL}": per_million},
        "fleet: Tokens per second": {f"default/{MODEL}": prompt + generated},
        "router: Requests": {"forwarded": answered + refused, "2xx": answered},
        "router: Requests at routers": {"running": 0, "queued": 0, "held": 0},
        "router: Engines that get requests": {"smallest": 2, "largest": 2},
        "router: Tokens of users per second": {f"{USER} prompt": prompt, f"{USER} completion": generated},
        "router: Requests of users": {f"{USER} 2xx": answered, f"{USER} 4xx": refused},
        "router: Refused requests": {"429: engine": 0, "429: queue": 0, "401": unauthorized},
        "router: API keys": {"users": 1, "skipped lines": 0},
        "router: Certificate": {"left": load.certificate_days},
        "operator: Leader": {"leaders": 1},
    }


def differences(found: Mapping[str, Values], expected: Mapping[str, Values]) -> Sequence[str]:
    """The values that are not within 5 % of what is expected."""
    pairs = [(panel, legend, value) for panel, values in expected.items() for legend, value in values.items()]
    return [
        f"{panel}, {legend}: {found[panel].get(legend)} instead of {value}"
        for panel, legend, value in pairs
        if found[panel].get(legend) != pytest.approx(value, rel=TOLERANCE, abs=1e-9)
    ]


async def exported(loopback: Loopback) -> set[str]:
    """The metrics that HAProxy's exporter has."""
    scopes = [("scope", "frontend"), ("scope", "backend")]
    async with loopback.session.get(f"http://127.0.0.1:{loopback.metrics_port}/metrics", params=scopes) as answer:
        return set(re.findall(r"^# TYPE (\S+)", await answer.text(), re.MULTILINE))


async def choices(prometheus: Prometheus) -> Mapping[str, Sequence[str]]:
    """What the variables of the dashboard of one InferenceDeployment offer, each narrowed by those before it."""
    found = dict[str, Sequence[str]]()
    for variable in json.loads(DASHBOARDS["service"].json())["templating"]["list"][1:]:
        query, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
        for name, values in found.items():
            query = query.replace(f"${name}", values[0] if values else ".*")
        found[variable["name"]] = await prometheus.values(label, query)
    return found


@asynccontextmanager
async def monitored(
    loopback: Loopback, cache: Cache, folder: Path, engines: Collection[str] = ENGINES, **speed: str
) -> AsyncIterator[tuple[Prometheus, Load]]:
    """A Prometheus that has the begin of all series of a router with two engines, and a client of that router.

    Args:
        loopback: gets the router.
        cache: of the operator.
        folder: for Prometheus.
        engines: addresses that it scrapes; the two may be followed by others.
        speed: `SIMULATOR_…` variables of the two.
    """
    loopback.spec = RouterSpec.model_validate(ROUTER)
    loopback.write_keys(f"{USER}: {hashlib.sha256(KEY.encode()).hexdigest()}\n")
    certificate = x509.load_der_x509_certificate(loopback.renew_certificate())
    await loopback.start_router()
    await loopback.start_twin()
    for address in ENGINES:
        await started(loopback, address, **{"SIMULATOR_DECODE_STEP_SECONDS": "0.005", **speed})
        loopback.names.addresses.append(address)
    await loopback.until_served(len(ENGINES))
    await loopback.until_twin_served(len(ENGINES))
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    port, load = free_port(), Load(loopback, certificate_days=left / timedelta(days=1))
    async with serve_health(port, alive=lambda: True, ready=lambda: True):
        prometheus = await Prometheus.start(folder, static_jobs(targets(loopback, port, engines)), loopback.session)
        try:
            pages = 1 + len(ENGINES) + 4
            await prometheus.until("sum(up)", pages)
            await prometheus.until(f'infd_startup_step{{name="{MODEL}"}}', 1)
            for name in ("a", "b"):
                cache.put(pod(name, ready=True))
            await load.begin(prometheus)
            yield prometheus, load
        finally:
            await prometheus.close()


async def test_every_panel_shows_what_the_load_explains(loopback: Loopback, cache: Cache, tmp_path: Path) -> None:
    async with monitored(loopback, cache, tmp_path) as (prometheus, load):
        for count in (*[RESOURCE_METRICS.count_no_progress] * 2, RESOURCE_METRICS.count_stall):
            count(Key("default", MODEL))
        await load.ask_often(REQUESTS)
        answered = 'sum(haproxy_frontend_http_responses_total{proxy="api",code="2xx"})'
        await prometheus.until(answered, load.answered)
        await prometheus.until("sum(vllm:request_success_total)", load.answered)
        await prometheus.until('sum(inference_operator_router_requests_total{code="4xx"})', load.refused)
        await prometheus.until('max(infd_engine_start_seconds{phase="load"})', 50)
        await prometheus.until("count(infd:late_first_tokens:ratio_rate1h)", 1)
        await asyncio.sleep(REST_SECONDS)
        deadline = time.monotonic() + SETTLED_SECONDS
        while True:  # one late scrape on a busy machine hides a series for a moment; the load is over, so values stay
            found, empty = await shown(prometheus)
            unexplained = {one for one in empty if one.rpartition(", ")[0] not in NOTHING_TO_SHOW | NEEDS_AN_API_SERVER}
            wrong = differences(found, explained(load))
            if (not wrong and unexplained == NEEDS_MORE) or time.monotonic() > deadline:
                break
        assert [name for name in EXPORTED if name not in await exported(loopback)] == []
        assert await choices(prometheus) == {"cluster": [], "resource_namespace": ["default"], "name": [MODEL]}
    assert (wrong, unexplained) == ([], NEEDS_MORE)
    hits = found["service: Prefix cache hits"]["hits"]
    assert 0 < hits < 1, "a prompt in seven is new"
    first = found["service: Time to the first token"]
    assert 0 < first["engines p50"] <= first["engines p95"] <= first["engines p99"]
    assert 0 < first["clients p50"] <= first["clients p95"]


def test_a_line_of_a_picture_has_a_gap_only_where_a_step_has_no_value() -> None:
    points = [(0.0, 1.0), (0.999, 2.0), (3.0, 4.0)]
    assert [str(value) for _, value in with_gaps(points, 1)] == ["1.0", "2.0", "nan", "4.0"]


@dataclass(frozen=True, slots=True)
class Scene:
    """What pictures show: more requests, another engine for them, and a rollout."""

    loopback: Loopback
    cache: Cache

    async def play(self) -> None:
        """A minute and a half; every engine that leaves has answered its requests."""
        self.cache.put(resource(2))
        await asyncio.sleep(QUIET_SECONDS + LOAD_STEP_SECONDS)
        decision = Decision(3, Bound.DEMAND, Terms(steady=14, headroom=5, backlog=2), TARGET)
        RESOURCE_METRICS.scaling = {Key("default", MODEL): ScalingResult(decision)}.get
        self.cache.put(resource(3, desired=3, step="LoadingWeights"))
        await self.starts("c")
        self.cache.put(resource(4, desired=3))
        await asyncio.sleep(QUIET_SECONDS)
        self.cache.put(resource(5, desired=3, step="LoadingWeights", rolls=True))
        for old, new in zip("abc", "def", strict=True):
            await self.starts(new)
            await self.leaves(old)
        self.cache.put(resource(6, desired=3))

    async def starts(self, name: str) -> None:
        self.cache.put(pod(name, ready=False))
        await started(self.loopback, address := PICTURED[name], **SLOW)
        await asyncio.sleep(START_SECONDS)
        self.loopback.names.addresses.append(address)
        self.cache.put(pod(name, ready=True))

    async def leaves(self, name: str) -> None:
        leaving = pod(name, ready=True, leaves=True)
        self.cache.put(leaving)
        self.loopback.names.addresses.remove(PICTURED[name])
        await asyncio.sleep(DRAIN_SECONDS)
        (engine,) = (one for one in self.loopback.engines if one.address == PICTURED[name])
        engine.process.terminate()
        self.cache.forget(leaving)


@pytest.mark.full
async def test_the_pictures_of_dashboards_have_lines_in_each_panel(
    loopback: Loopback, cache: Cache, tmp_path: Path
) -> None:
    """`PICTURES=folder` keeps the pictures; those of the documentation are in docs/images."""
    folder = Path(os.environ.get("PICTURES", tmp_path))
    async with monitored(loopback, cache, tmp_path, PICTURED.values(), **SLOW) as (prometheus, load):
        begin, scene = time.time(), asyncio.create_task(Scene(loopback, cache).play())
        await asyncio.sleep(QUIET_SECONDS)
        for clients in (4, 8, 14, 14, 8):
            await load.ask_for(LOAD_STEP_SECONDS, clients)
        await scene
        await prometheus.until("count(infd:late_first_tokens:ratio_rate1h)", 1)
        source = Source(loopback.session, prometheus.url, OF)
        span = Span(time.time(), time.time() - begin, RATE_SECONDS)
        await draw(source, FOLDER / "service.json", folder / "dashboard.png", span, below=FIRST_ROWS)
        for name, board in DASHBOARDS.items():
            picture = folder / f"dashboard-{name}.png"
            lines = await draw(source, FOLDER / f"{name}.json", picture, span)
            assert set(lines) == {panel.title for panel in board.panels}
            empty = {f"{name}: {title}" for title, found in lines.items() if not found}
            assert empty - NOTHING_TO_SHOW - NEEDS_AN_API_SERVER - NEEDS_RECONCILES - SWITCHED_OFF == set()
            assert picture.read_bytes().startswith(PNG)
