"""`infd explain`: what a resource waits for, why its engines are slow, and why there are as many as there are."""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference_operator.api.conditions import Condition
from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import Resource, resource
from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.api.status import AutoscalingStatus
from inference_operator.autoscaling.decision import ScalingSample
from inference_operator.autoscaling.demand import Totals, scaling_sample
from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.live_resource import LiveEvent, LiveResource, engine_of, live_resource
from inference_operator.cli.parser import UsageError
from inference_operator.controller.cluster import ClusterError
from inference_operator.diagnosis.slowness import slow_causes
from inference_operator.engines.base import Engine
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.objects.names import ENGINE, ROUTER, selector_text
from inference_operator.status.events import SCALED_DOWN, SCALED_UP
from inference_operator.status.network import slow_network
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import PodView, pod_view
from inference_operator.views.samples import RouterSample, Samples, combined_samples

PORT_NAME = "http"
"""Name of the port of the engine's API."""


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """A ready engine and its metrics, or why they could not be read."""

    pod: str
    text: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """A resource and its engines, as read from the cluster."""

    found: Resource
    engines: Sequence[EngineMetrics]


def run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    async def read_live(api: Api, cluster: KubeCluster, live: Manifest) -> LiveResource:
        return await live_resource(api, cluster, live, engine_of(resource(live), engines))

    match options.name:
        case [name]:
            observed = _observed(options, name, engines)
            lines = explanation(observed, engine_of(observed.found, engines))
        case ["autoscaling", name]:
            lines = scaling_explanation(ClusterCommand(options).run_for(name, read_live))
        case _:
            raise UsageError(
                "Give one name, or `autoscaling` and one name, for example `infd explain autoscaling qwen`."
            )
    print("\n".join(lines))
    return 0


def explanation(observed: Observed, engine: Engine) -> Iterator[str]:
    """The lines of the explanation: conditions that are not as they should be, then each engine."""
    status = observed.found.status
    yield from _troubles(status.conditions)
    plan = status.plan
    limit = plan.max_num_seqs * plan.data_parallel_size if plan and plan.max_num_seqs else None
    if slow := slow_network(status.engine.network if status.engine else None):
        yield f"Slow: {slow}"
    if not observed.engines:
        yield "No engine is ready, so there are no metrics."
    for one in observed.engines:
        load = engine.load(one.text)
        if load is None and (sample := engine.sample(one.text)):
            yield f"{one.pod}: {sample.running:,} requests run. This kind of engine tells no more."
            continue
        if load is None:
            yield f"{one.pod}: its metrics cannot be read: {one.problem or 'it has none about requests'}."
            continue
        causes = slow_causes(load, max_num_seqs=limit)
        if not causes:
            yield f"{one.pod}: no request waits; {load.running:,} run, {load.answered:,} answered since its start."
        yield from (f"{one.pod}: slow. {cause.evidence} {cause.cure}" for cause in causes)


_EXPECTED = {"Ready": "True", "Reconciling": "False", "Stalled": "False"}
"""The status of conditions about which there is nothing to explain."""


_FIRST = ("Stalled", "Reconciling")
"""Conditions whose messages say what is wrong and where; those of others follow from it."""


def _troubles(conditions: Sequence[Condition]) -> Iterator[str]:
    """The conditions that are not as they should be, those of one reason in one line, with what helps."""
    by_reason: dict[str, list[Condition]] = {}
    for condition in sorted(filter(_is_wrong, conditions), key=lambda condition: condition.type not in _FIRST):
        by_reason.setdefault(condition.reason, []).append(condition)
    reasons = {str(reason): reason for reason in Reason}
    for reason, same in by_reason.items():
        messages = " ".join(dict.fromkeys(condition.message for condition in same))
        yield f"{', '.join(condition.type for condition in same)}: {reason}. {messages}"
        if reason in reasons:
            yield f"  What helps: {EXPLANATIONS[reasons[reason]].cure}"


def _is_wrong(condition: Condition) -> bool:
    return condition.status == "Unknown" or condition.status != _EXPECTED.get(condition.type, condition.status)


def _observed(options: argparse.Namespace, name: str, engines: EngineRegistry) -> Observed:
    """The resource and the metrics of its ready engines, which the API server fetches from their pods."""

    async def read(api: Api, cluster: KubeCluster, live: Manifest) -> Observed:
        labels = selector_text(name, ENGINE)
        pods = [pod async for pod in cluster.each(POD, namespace=options.namespace, labels=labels)]
        found = resource(live)
        engine = engine_of(found, engines)
        return Observed(found, [await _metrics(api, options.namespace, pod, engine) for pod in _leaders(pods)])

    return ClusterCommand(options).run_for(name, read)


def _leaders(pods: Sequence[Manifest]) -> Sequence[PodView]:
    engines = engines_of(pod_view(pod, component=ENGINE) for pod in pods)
    return sorted((engine.leader for engine in engines if engine.is_serving), key=lambda pod: pod.name)


async def _metrics(api: Api, namespace: str, pod: PodView, engine: Engine) -> EngineMetrics:
    if (page := engine.metrics_page) is None:
        return EngineMetrics(pod.name, problem="this kind of engine serves none")
    port = page.port or pod.ports.get(PORT_NAME, 0)
    path = f"{Ref(POD, namespace, f'{pod.name}:{port}').path}/proxy{page.path}"
    try:
        return EngineMetrics(pod.name, await api.text(path, POD, query={}))
    except ClusterError as error:
        return EngineMetrics(pod.name, problem=error.cause)


MOST_DECISIONS = 20
"""Decisions that are printed; Kubernetes keeps Events for an hour by default (kube-apiserver, `--event-ttl`)."""

_NOTE = re.compile(r"From ([0-9]+) to ([0-9]+) engines: (.*)", re.DOTALL)


def scaling_explanation(observed: LiveResource) -> Iterator[str]:
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
    samples, views = observed.samples, engines_of(observed.of(ENGINE))
    sample, _ = scaling_sample(views, observed.of(ROUTER), samples, Totals(), at=0.0, bypasses_routers=bypasses_routers)
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


def _decisions(events: Sequence[LiveEvent]) -> Iterator[str]:
    """The last decisions, each with a bar as long as the number of engines."""
    scaled = (event for event in events if event.reason in (SCALED_UP, SCALED_DOWN))
    noted = [(event.at, found) for event in scaled if (found := _NOTE.match(event.note))]
    if not noted:
        yield "No Event tells of a change of the number of engines."
        return
    yield "Changes:"
    for at, found in noted[-MOST_DECISIONS:]:
        before, after, reason = found.groups()
        yield f"  {at}  {before:>3} -> {after:<3} {'#' * min(int(after), 40):<8} {reason}"
