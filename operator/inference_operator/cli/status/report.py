"""The facts of `infd status`: a resource, its pods and its traffic, for the screen and for programs.

- With two readings, rates and times to the first byte are those of routers between the two, so that they tell of now.
  Without a request in between, there are none.
- With one reading, requests and times to the first byte are those since the routers started.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime

from inference_operator.api.resource import Resource
from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.api.status import RoleStatus, Status
from inference_operator.cli.live_resource import LiveEvent, LiveResource
from inference_operator.cli.parser import harmless
from inference_operator.cli.status.listing import Summary, seconds_since, summary, words_of
from inference_operator.diagnosis.group_members import group_members, waits_itself
from inference_operator.diagnosis.startup_progress import sentence
from inference_operator.objects.names import ROUTER
from inference_operator.sizing.shape import ParallelSizes
from inference_operator.views.pod import PodView
from inference_operator.views.raw import timestamp
from inference_operator.views.samples import Histogram, combined_samples

LAST_EVENTS = 8
HALF, MOST = 0.5, 0.95


@dataclass(frozen=True, slots=True)
class PodLine:
    name: str
    state: str
    ready: bool
    node: str
    seconds: int | None
    """Its age; None if it is unknown."""
    requests: str = ""
    """Requests that it computes and that wait in it; empty if they are not reported."""
    template: str = ""


@dataclass(frozen=True, slots=True)
class Traffic:
    running: int
    queued: int
    held: int
    """Requests that wait in routers while no engine is ready."""
    requests: int
    """Those since the routers started."""
    per_second: float | None = None
    first_byte_half: float | None = None
    """Seconds to the first byte of a stream that half of the requests keep."""
    first_byte_most: float | None = None
    """The same for 95 of 100."""


@dataclass(frozen=True, slots=True)
class StatusReport(Summary):
    external_urls: tuple[str, ...]
    plan: tuple[str, ...]
    engine: str
    engines: tuple[PodLine, ...]
    routers: tuple[PodLine, ...]
    traffic: Traffic | None
    no_traffic: str
    scaling: tuple[str, ...]
    adapters: tuple[tuple[str, str, str, str], ...]
    """Name, phase, engines that have it, and message of each."""
    events: tuple[LiveEvent, ...]
    gateways: tuple[str, ...]


def status_report(
    now: LiveResource, *, at: datetime, before: LiveResource | None = None, elapsed: float = 0.0
) -> StatusReport:
    found, status = now.found, now.found.status
    return StatusReport(
        **asdict(summary(now.live, at)),
        external_urls=status.external_urls,
        plan=tuple(line for role in status.every_role for line in _plan(status, role)),
        engine="; ".join(filter(None, map(_engine, status.every_role))),
        engines=tuple(_engines(now, at)),
        routers=tuple(_line(pod, _state(pod), at) for pod in sorted(now.routers, key=lambda pod: pod.name)),
        traffic=_traffic(now, before, elapsed),
        no_traffic="" if now.samples.routers else _no_traffic(now),
        scaling=tuple(_scaling(found, at)),
        adapters=tuple((one.name, str(one.phase), one.engines, one.message) for one in status.adapters),
        events=tuple(LiveEvent(one.at, harmless(one.reason), harmless(one.note)) for one in now.events[-LAST_EVENTS:]),
        gateways=tuple(map(harmless, now.gateways)),
    )


def _plan(status: Status, role: RoleStatus) -> Iterator[str]:
    plan = role.plan
    if plan is None:
        return
    sizes = ParallelSizes(plan.tensor_parallel_size, plan.pipeline_parallel_size, plan.data_parallel_size, plan.nodes)
    divided = plan.gpus_per_replica > 1 or plan.nodes > 1
    gpus = f"{plan.gpus_per_replica}x{plan.gpu or plan.device}" if role.name else status.gpus
    yield f"{_of(role)}{gpus} for each engine" + (f", {sizes.words}" if divided else "")
    part = "data parallel rank" if sizes.data > 1 else "engine"
    words = (
        (plan.max_model_len, "{:,} tokens of context"),
        (plan.max_num_seqs, f"{{:,}} requests at once in each {part}"),
        (plan.kv_cache_tokens, "KV cache for {:,} tokens" + (f" in each {part}" if sizes.data > 1 else "")),
    )
    if said := ", ".join(text.format(value) for value, text in words if value):
        yield said


def _engine(role: RoleStatus) -> str:
    engine = role.engine
    if engine is None:
        return ""
    kind = f"{engine.kind} ({engine.implementation})" if engine.implementation else engine.kind
    return f"{_of(role)}{kind or 'VLLM'}, {engine.image}"


def _engines(now: LiveResource, at: datetime) -> Iterator[PodLine]:
    status = now.found.status
    for engine in sorted(now.engines, key=lambda one: one.name):
        plan = status.of_role(engine.component, has_scale=True).plan
        members = group_members(engine, plan.nodes if plan else 1)
        for pod in engine.pods:
            activity = now.samples.engines.get(pod.uid)
            said = f"{activity.sample.running:,} run, {activity.sample.waiting:,} wait" if activity else ""
            said = "worker" if pod in engine.workers else said
            waits = members.waits[pod.index] if members and waits_itself(pod) and not pod.terminating else ""
            yield _line(pod, waits or _state(pod, _step(pod, status)), at, requests=said)


def _step(pod: PodView, status: Status) -> str:
    step = sentence(status.startup) if status.startup and status.startup.pod == pod.name else ""
    return step.removeprefix(f"Pod {pod.name} ").removesuffix(".")


def _line(pod: PodView, state: str, at: datetime, *, requests: str = "") -> PodLine:
    return PodLine(pod.name, state, pod.ready, pod.node, seconds_since(pod.created, at), requests, pod.template or "")


def _state(pod: PodView, step: str = "") -> str:
    if pod.terminating:
        return "ends"
    if pod.problem:
        return harmless(f"{pod.problem.reason}: {pod.problem.cause}")
    if pod.ready:
        return "ready" if pod.traffic or pod.component == ROUTER else "ready, gets no new requests"
    return step or "starts"


def _traffic(now: LiveResource, before: LiveResource | None, elapsed: float) -> Traffic | None:
    if not now.samples.routers:
        return None
    total = combined_samples(now.samples.routers.values())
    per_second, window = None, now.first_byte
    if before is not None:
        same = elapsed > 0 and set(before.samples.routers) == set(now.samples.routers)
        arrived = total.arrivals - combined_samples(before.samples.routers.values()).arrivals
        is_growth = same and arrived >= 0  # otherwise a router has started again
        per_second, window = (
            (arrived / elapsed, _grown(before.first_byte, now.first_byte)) if is_growth else (None, None)
        )
    half, most = (_quantile(window, part) if window and window.counts[-1] else None for part in (HALF, MOST))
    return Traffic(sum(total.sessions.values()), total.queued, total.held, total.arrivals, per_second, half, most)


def _no_traffic(now: LiveResource) -> str:
    spec, routers = now.found.spec, now.routers
    if isinstance(spec, Spec) and spec.router.strategy is RouterStrategy.EXTERNAL:
        return "`router.strategy` is External, so no router of the operator counts requests"
    if not routers:
        return "there is no router yet"
    if not any(pod.is_serving for pod in routers):
        return "no router is ready yet"
    return "you lack the right to get `pods/proxy`" if now.is_forbidden else "no router answered"


def _grown(before: Histogram | None, now: Histogram | None) -> Histogram | None:
    if before is None or now is None or before.bounds != now.bounds:
        return None
    counts = tuple(new - old for old, new in zip(before.counts, now.counts, strict=True))
    return Histogram(now.bounds, counts, now.total - before.total) if min(counts) >= 0 and counts[-1] > 0 else None


def _quantile(window: Histogram, part: float) -> float:
    """The least bound that this part of the observations keeps; the last finite one if none does.

    Examples:
        >>> window = Histogram((0.1, 0.5, float("inf")), (5.0, 9.0, 10.0), 2.0)
        >>> _quantile(window, 0.5), _quantile(window, 0.9), _quantile(window, 0.95)
        (0.1, 0.5, 0.5)
    """
    finite = [(bound, count) for bound, count in zip(window.bounds, window.counts, strict=True) if bound < float("inf")]
    wanted = part * window.counts[-1]
    return next((bound for bound, count in finite if count >= wanted), finite[-1][0] if finite else 0.0)


def _scaling(found: Resource, at: datetime) -> Iterator[str]:
    if not isinstance(found.spec, Spec):
        return
    if limits := found.spec.autoscaling:
        yield f"{limits.min_replicas} to {limits.max_replicas} engines, by {limits.backend}"
    for role in found.status.every_role if limits or found.status.roles else ():
        if recorded := role.autoscaling:
            moment = timestamp(recorded.last_scale_time)
            ago = f" {words_of(seconds_since(moment, at))} ago" if moment else ""
            yield f"{_of(role)}{recorded.desired_replicas} wanted{ago}: {recorded.reason}"


def _of(role: RoleStatus) -> str:
    """What a line about a role of several begins with."""
    return f"{role.name}: " if role.name else ""
