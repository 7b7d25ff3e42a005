"""A resource in a cluster with its pods, what their metrics show, and its Events: what `infd` explains and shows."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from inference_operator.api.resource import Resource, resource
from inference_operator.cli.cluster_command import list_objects
from inference_operator.controller.cluster import ClusterError, ForbiddenError
from inference_operator.engines.base import Engine
from inference_operator.engines.registry import EngineRegistry
from inference_operator.engines.series import histogram
from inference_operator.engines.telemetry import EngineLoad
from inference_operator.kube.cluster import KubeCluster
from inference_operator.kube.lookup_listings import EVENT, last_time
from inference_operator.manifest import MODEL_GATEWAY, POD, Manifest, Ref
from inference_operator.objects.names import NAME_LABEL, ROUTER, component_of, is_role
from inference_operator.router.observe import METRIC_PREFIX, ROUTER_METRICS_PATH
from inference_operator.router.stats import SAMPLE_PATH, router_sample
from inference_operator.views.engine import EngineView, engines_of
from inference_operator.views.pod import PodView, pod_view
from inference_operator.views.raw import mapping
from inference_operator.views.samples import EngineActivity, EngineSample, Histogram, RouterSample, Samples
from inference_operator.views.samples import combined_samples as combined
from inference_operator.views.untrusted_text import one_line

PAGES_AT_ONCE = 4
"""Pages that are read at once, through the API server."""
PAGES_OF_A_ROUTER = 2
"""Pages of each process of a router: HAProxy's statistics, and what they lack."""
FIRST_BYTE = f"{METRIC_PREFIX}time_to_first_byte_seconds"


@dataclass(frozen=True, slots=True)
class LiveEvent:
    at: str
    """When it happened last, as RFC 3339."""
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class LiveResource:
    live: Manifest
    found: Resource
    pods: Sequence[PodView] = ()
    samples: Samples = field(default_factory=Samples)
    events: Sequence[LiveEvent] = ()
    first_byte: Histogram | None = None
    """Seconds to the first byte of streams since the start of the routers; None if no router told."""
    loads: Mapping[str, EngineLoad] = field(default_factory=dict)
    """How busy the engines are that tell, by the uid of their pods."""
    is_forbidden: bool = False
    gateways: Sequence[str] = ()
    """ModelGateways of its namespace, which serve it too, with their URLs."""

    @property
    def routers(self) -> list[PodView]:
        return [pod for pod in self.pods if pod.component == ROUTER]

    @property
    def engines(self) -> list[EngineView]:
        return engines_of(pod for pod in self.pods if is_role(pod.component))


async def live_resource(cluster: KubeCluster, live: Manifest, engines: EngineRegistry) -> LiveResource:
    """The pods of a resource with their metrics, which the API server fetches from them, and its Events."""
    found = resource(live)
    namespace, name = found.key.namespace, found.key.name

    def program(pod: PodView) -> Engine:
        return engine_of(found, engines, pod.component)

    async def read_pods() -> tuple[list[PodView], Mapping[str, Sequence[str | None]]]:
        views = await pods_of(cluster, namespace, f"{NAME_LABEL}={name}")
        pods = [view for view in views if is_role(view.component) or view.component == ROUTER]
        return pods, await _pages(cluster, namespace, list(_with_metrics(pods)), program)

    async def read_events() -> list[LiveEvent]:
        selected = cluster.each(EVENT, namespace=namespace, fields=f"involvedObject.uid={found.uid}")
        read = [(last_time(one), one.get("reason"), one.get("message")) async for one in selected]
        events = (LiveEvent(at, one_line(reason), one_line(note)) for at, reason, note in read)
        return sorted(events, key=lambda one: one.at)

    events, gateways, read = await asyncio.gather(read_events(), _gateways(cluster, namespace), read_pods())
    pods, answers = read
    pages = {uid: [page or "" for page in own] for uid, own in answers.items()}
    is_forbidden = any(None in own for own in answers.values())
    routers = "\n".join(page for pod in pods if pod.component == ROUTER for page in pages.get(pod.uid, ()))
    shown = [(pod, pages[pod.uid]) for pod in pods if is_role(pod.component) and pages.get(pod.uid)]
    loads = {pod.uid: load for pod, (page, *_) in shown if (load := program(pod).load(page)) is not None}
    samples, first = _samples(pods, pages, program), _first_bytes(routers)
    return LiveResource(live, found, pods, samples, events, first, loads, is_forbidden, gateways)


async def _gateways(cluster: KubeCluster, namespace: str) -> list[str]:
    """The gateways of a namespace; none where the kind is not installed, or the right to list them is missing."""
    found: list[str] = []
    with suppress(ClusterError):
        for live in await list_objects(cluster, MODEL_GATEWAY, namespace):
            words = (mapping(live, "metadata").get("name"), mapping(live, "status").get("url"))
            found.append(one_line(" ".join(str(word) for word in words if word)))
    return sorted(found)


async def pods_of(cluster: KubeCluster, namespace: str, labels: str) -> list[PodView]:
    return [pod_view(pod, component=component_of(pod)) for pod in await list_objects(cluster, POD, namespace, labels)]


def _with_metrics(pods: Sequence[PodView]) -> Iterator[PodView]:
    yield from (pod for pod in pods if pod.component == ROUTER and pod.is_serving)
    yield from (one.leader for one in engines_of(pod for pod in pods if is_role(pod.component)) if one.is_serving)


def _first_bytes(pages: str) -> Histogram | None:
    try:
        return histogram(pages, FIRST_BYTE)
    except ValueError:
        return None


async def _pages(
    cluster: KubeCluster, namespace: str, pods: Sequence[PodView], program: Callable[[PodView], Engine]
) -> Mapping[str, Sequence[str | None]]:
    """The pages of metrics of pods, by the uid of the pod: empty if one cannot be read, None if it may not."""
    few = asyncio.Semaphore(PAGES_AT_ONCE)

    async def page(pod: PodView, port: int, path: str) -> str | None:
        async with few:
            try:
                place = Ref(POD, namespace, f"{pod.name}:{port}")
                return await cluster.api.text(f"{place.path}/proxy{path}", POD, query={})
            except ForbiddenError:
                return None
            except ClusterError:
                return ""

    read = [asyncio.gather(*(page(pod, *place) for place in _paths(pod, program))) for pod in pods]
    return dict(zip((pod.uid for pod in pods), await asyncio.gather(*read), strict=True))


def _paths(pod: PodView, program: Callable[[PodView], Engine]) -> Iterator[tuple[int, str]]:
    if pod.component == ROUTER:
        ports = [port for name, port in pod.ports.items() if name.startswith("metrics")]
        yield from ((port, path) for port in ports for path in (SAMPLE_PATH, ROUTER_METRICS_PATH))
    elif page := program(pod).metrics_page:
        yield page.port or pod.ports.get("http", 0), page.path


def _samples(
    pods: Sequence[PodView], pages: Mapping[str, Sequence[str]], program: Callable[[PodView], Engine]
) -> Samples:
    routers: dict[str, RouterSample] = {}
    for pod in (one for one in pods if one.component == ROUTER):
        own = pages.get(pod.uid, ())
        found = [sample for page in own if (sample := router_sample(page)) is not None]
        if found and len(found) * PAGES_OF_A_ROUTER == len(own):
            routers[pod.uid] = combined(found)
    sessions = combined(routers.values()).sessions
    engines: dict[str, EngineActivity] = {}
    for pod in (one for one in pods if is_role(one.component) and one.uid in pages):
        shown, engine = pages[pod.uid], program(pod)
        if engine.metrics_page is None:
            read: EngineSample | None = EngineSample.by_routers(sessions.get(pod.address, 0))
        else:
            read = engine.sample(shown[0]) if shown else None
        if read is not None:
            engines[pod.uid] = EngineActivity(read, sessions=0, at=0.0)
    return Samples(engines, routers)


def engine_of(found: Resource, engines: EngineRegistry, role: str) -> Engine:
    """The engine that a role of a resource runs, as its status says; the default before it has one."""
    known = found.status.of_role(role, has_scale=True).engine
    kind = known.kind if known else ""
    return engines.get(kind) or engines[engines.default]
