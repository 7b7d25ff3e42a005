"""`infd explain autoscaling NAME`: the requests now, the last decision, and those before it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference_operator.api.reasons import ConditionType
from inference_operator.api.resource import Resource, resource
from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.api.status import AutoscalingStatus
from inference_operator.autoscaling.decision import ScalingSample
from inference_operator.autoscaling.demand import Totals, scaling_sample
from inference_operator.engines.base import Engine
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.objects.names import COMPONENT_LABEL, ENGINE, NAME_LABEL, ROUTER, is_role
from inference_operator.router.stats import SAMPLE_PATH, router_sample
from inference_operator.status.events import SCALED_DOWN, SCALED_UP
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import PodView, pod_view
from inference_operator.views.samples import EngineActivity, EngineSample, RouterSample, Samples, combined_samples

if TYPE_CHECKING:
    from inference_operator.kube.client import Api
    from inference_operator.kube.cluster import KubeCluster

MOST_DECISIONS = 20
"""Decisions that are printed; Kubernetes keeps Events for an hour by default (kube-apiserver, `--event-ttl`)."""

_NOTE = re.compile(r"From ([0-9]+) to ([0-9]+) engines: (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ScalingEvent:
    """An Event about another number of engines."""

    at: str
    note: str


@dataclass(frozen=True, slots=True)
class ScalingSnapshot:
    """The autoscaling of a resource, as read from the cluster."""

    found: Resource
    pods: Sequence[PodView]
    samples: Samples
    events: Sequence[ScalingEvent]
    """The oldest first."""


def scaling_explanation(observed: ScalingSnapshot) -> Iterator[str]:
    """The lines of the explanation."""
    found, spec = observed.found, observed.found.spec
    if not isinstance(spec, Spec) or spec.autoscaling is None:
        yield f"{found.key.name} has no `spec.autoscaling`: it runs as many engines as `spec.replicas` says."
        return
    limits, recorded = spec.autoscaling, found.status.autoscaling
    yield f"Limits: {limits.min_replicas} to {limits.max_replicas} engines; backend {limits.backend}."
    if recorded is None:
        yield "No number of engines has been decided yet."
    else:
        yield f"Wanted: {recorded.desired_replicas}, since {recorded.last_scale_time}: {recorded.reason}."
        yield from _target(recorded)
        if recorded.start_seconds is not None:
            yield f"A start takes {recorded.start_seconds} s, from the new pod to its readiness."
    condition = found.status.condition(ConditionType.SCALING_ACTIVE)
    if condition is not None and (condition.status != "True" or limits.schedule):
        yield f"ScalingActive: {condition.reason}. {condition.message}"
    bypasses_routers = spec.router.strategy is RouterStrategy.EXTERNAL
    engines, routers = ([pod for pod in observed.pods if pod.component == one] for one in (ENGINE, ROUTER))
    samples, views = observed.samples, engines_of(engines)
    sample, _ = scaling_sample(views, routers, samples, Totals(), at=0.0, bypasses_routers=bypasses_routers)
    yield from _now(sample, observed.samples)
    yield from _decisions(observed.events)


def _target(recorded: AutoscalingStatus) -> Iterator[str]:
    """The requests that one engine should have, and what decides that."""
    if recorded.target_concurrency is not None:
        factor, bound = recorded.target_factor, f"bound by {recorded.target_bound}"
        why = bound if factor is None else f"{bound}; corrected by measured latencies, times {factor:g}"
        yield f"Target: {recorded.target_concurrency} requests for each engine ({why})."
    if load := recorded.load:
        cached = f", of which the prefix cache has {load.cached:.0%}," if load.cached else ""
        yield f"Requests: {load.prompt_tokens:,} prompt tokens{cached} and {load.answer_tokens:,} answer tokens (mean)."


def _now(sample: ScalingSample, samples: Samples) -> Iterator[str]:
    """The requests as the metrics show them now."""
    routers: RouterSample = combined_samples(samples.routers.values())
    waiting = sum(one.sample.waiting for one in samples.engines.values())
    yield (
        f"Now: {sample.outstanding:.0f} requests. {sample.running:.0f} run and {waiting} wait in {sample.ready} ready"
        f" engines; {routers.queued} are queued and {routers.held} held in routers. {sample.starting} engines start."
    )
    if sample.missing:
        yield f"The metrics of {', '.join(sample.missing)} cannot be read from here."


def _decisions(events: Sequence[ScalingEvent]) -> Iterator[str]:
    """The last decisions, each with a bar as long as the number of engines."""
    noted = [(event.at, found) for event in events if (found := _NOTE.match(event.note))]
    if not noted:
        yield "No Event tells of a change of the number of engines."
        return
    yield "Changes:"
    for at, found in noted[-MOST_DECISIONS:]:
        before, after, reason = found.groups()
        yield f"  {at}  {before:>3} -> {after:<3} {'#' * min(int(after), 40):<8} {reason}"


async def scaling_snapshot(api: "Api", cluster: "KubeCluster", live: Manifest, engine: Engine) -> ScalingSnapshot:
    """The pods of a resource with their metrics, which the API server fetches from them, and its Events."""
    from inference_operator.kube.object_events import EVENT  # noqa: PLC0415 - a second of imports

    found = resource(live)
    namespace, name = found.key.namespace, found.key.name
    listed = [pod async for pod in cluster.each(POD, namespace=namespace, labels=f"{NAME_LABEL}={name}")]
    pods = [view for pod in listed if (view := _view(pod)) is not None]
    texts = {pod.uid: await _texts(api, namespace, pod, engine) for pod in _with_metrics(pods)}
    events = cluster.each(EVENT, namespace=namespace, fields=f"involvedObject.uid={found.uid}")
    scaled = [event async for event in events if event.get("reason") in (SCALED_UP, SCALED_DOWN)]
    noted = sorted((ScalingEvent(_time(one), str(one.get("message") or "")) for one in scaled), key=lambda one: one.at)
    return ScalingSnapshot(found, pods, _samples(pods, texts, engine), noted)


def _view(pod: Manifest) -> PodView | None:
    component = ((pod.get("metadata") or {}).get("labels") or {}).get(COMPONENT_LABEL)
    return pod_view(pod, component=component) if component in (ENGINE, ROUTER) else None


def _with_metrics(pods: Sequence[PodView]) -> Iterator[PodView]:
    """The pods to read: ready routers, and the leaders of ready engines."""
    yield from (pod for pod in pods if pod.component == ROUTER and pod.ready and not pod.terminating)
    yield from (one.leader for one in engines_of(pod for pod in pods if pod.component == ENGINE) if one.is_serving)


def _time(event: Manifest) -> str:
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("eventTime") or event.get("lastTimestamp") or "")


async def _texts(api: "Api", namespace: str, pod: PodView, engine: Engine) -> list[str]:
    """The metrics of each process of a pod; empty if one cannot be read, or if it serves none."""
    from inference_operator.controller.cluster import ClusterError  # noqa: PLC0415 - as above

    try:
        return [
            await api.text(f"{Ref(POD, namespace, f'{pod.name}:{port}').path}/proxy{path}", POD, query={})
            for port, path in _pages(pod, engine)
        ]
    except ClusterError:
        return []


def _pages(pod: PodView, engine: Engine) -> Iterator[tuple[int, str]]:
    """The port and path of each page with metrics of a pod."""
    if pod.component == ROUTER:
        yield from ((port, SAMPLE_PATH) for name, port in pod.ports.items() if name.startswith("metrics"))
    elif page := engine.metrics_page:
        yield page.port or pod.ports.get("http", 0), page.path


def _samples(pods: Sequence[PodView], texts: Mapping[str, Sequence[str]], engine: Engine) -> Samples:
    routers: dict[str, RouterSample] = {}
    for pod in (one for one in pods if one.component == ROUTER):
        pages = texts.get(pod.uid, ())
        found = [sample for page in pages if (sample := router_sample(page)) is not None]
        if found and len(found) == len(pages):
            routers[pod.uid] = combined_samples(found)
    sessions = combined_samples(routers.values()).sessions
    engines: dict[str, EngineActivity] = {}
    for pod in (one for one in pods if is_role(one.component) and one.uid in texts):
        pages = texts[pod.uid]
        if engine.metrics_page is None:
            read: EngineSample | None = EngineSample.by_routers(sessions.get(pod.address, 0))
        else:
            read = engine.sample(pages[0]) if pages else None
        if read is not None:
            engines[pod.uid] = EngineActivity(read, sessions=0, at=0.0)
    return Samples(engines, routers)
