"""`infd explain`: what a resource waits for, and why its engines are slow, from a cluster."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference_operator.api.conditions import Condition
from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import Reason
from inference_operator.api.resource import Resource, resource
from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.explain_autoscaling import scaling_explanation
from inference_operator.cli.live_resource import LiveResource, engine_of, live_resource
from inference_operator.cli.parser import UsageError
from inference_operator.controller.cluster import ClusterError
from inference_operator.diagnosis.slowness import slow_causes
from inference_operator.engines.base import Engine
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.objects.names import ENGINE, selector_text
from inference_operator.status.network import slow_network
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import PodView, pod_view

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
    """Print the explanation of one resource."""
    match options.name:
        case [name]:
            observed = _observed(options, name, engines)
            lines = explanation(observed, engine_of(observed.found, engines))
        case ["autoscaling", name]:
            lines = scaling_explanation(_live(options, name, engines))
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


def _live(options: argparse.Namespace, name: str, engines: EngineRegistry) -> LiveResource:
    """The resource, what its routers and engines count, and its Events."""

    async def read(api: Api, cluster: KubeCluster, live: Manifest) -> LiveResource:
        return await live_resource(api, cluster, live, engine_of(resource(live), engines))

    return ClusterCommand(options).run_for(name, read)


def _leaders(pods: Sequence[Manifest]) -> Sequence[PodView]:
    """The pods that show the metrics of the ready engines."""
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
