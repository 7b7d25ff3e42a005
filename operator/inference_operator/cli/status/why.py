"""`infd status --why`: what a resource waits for, why its engines are slow, and why there are as many."""

import argparse
import re
from collections.abc import Iterator, Sequence

from inference_operator.api.autoscaling import AutoscalingSpec
from inference_operator.api.conditions import Condition
from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.api.status import AutoscalingStatus
from inference_operator.autoscaling.decision import ScalingSample
from inference_operator.autoscaling.demand import Totals, scaling_sample
from inference_operator.cli.live_resource import LiveEvent, LiveResource
from inference_operator.cli.output import document, print_found
from inference_operator.cli.parser import EXIT_REFUSED
from inference_operator.cli.status.command import live_report
from inference_operator.diagnosis.slowness import slow_causes
from inference_operator.objects.names import COMPONENT_LABEL, answers_clients
from inference_operator.status.events import SCALED_DOWN, SCALED_UP
from inference_operator.status.network import slow_network
from inference_operator.views.pod import PodView
from inference_operator.views.samples import Samples, combined_samples


def run(options: argparse.Namespace) -> int:
    now, report = live_report(options)
    lines = list(explanation(now))
    print_found(document(report) | {"why": lines}, options.output, lines)
    return 0 if report.ready else EXIT_REFUSED


def explanation(now: LiveResource) -> Iterator[str]:
    """The conditions that are not as they should be, then each engine, then the number of engines."""
    status = now.found.status
    yield from _troubles(status.conditions)
    for role in status.every_role:
        if slow := slow_network(role.engine.network if role.engine else None):
            yield f"Slow: {slow}"
    serving = sorted((engine.leader for engine in now.engines if engine.is_serving), key=lambda pod: pod.name)
    if not any(answers_clients(pod.component) for pod in serving):
        yield "No engine is ready, so there are no metrics."
    for pod in serving:
        plan = status.of_role(pod.component, has_scale=True).plan
        limit = plan.max_num_seqs * plan.data_parallel_size if plan and plan.max_num_seqs else None
        yield from (f"{pod.name}: {line}" for line in _engine(pod, now, limit))
    if isinstance(now.found.spec, Spec) and now.found.spec.autoscaling is not None:
        yield from _scaling(now, now.found.spec, now.found.spec.autoscaling)


def _engine(pod: PodView, now: LiveResource, limit: int | None) -> Iterator[str]:
    if load := now.loads.get(pod.uid):
        causes = slow_causes(load, max_num_seqs=limit)
        yield from (f"slow. {cause.evidence} {cause.cure}" for cause in causes)
        if not causes:
            yield f"no request waits; {load.running:,} run, {load.answered:,} answered since its start."
    elif activity := now.samples.engines.get(pod.uid):
        yield f"{activity.sample.running:,} requests run. This kind of engine reports no more."
    else:
        why = "you lack the right to get `pods/proxy`" if now.is_forbidden else "it does not answer with them"
        yield f"its metrics cannot be read: {why}."


_EXPECTED = {"Ready": "True", "Reconciling": "False", "Stalled": "False"}
"""The status of conditions about which there is nothing to explain."""
_FIRST = ("Stalled", "Reconciling")
"""Conditions whose messages say what is wrong and where; those of others follow from it."""


def _troubles(conditions: Sequence[Condition]) -> Iterator[str]:
    """The conditions that are not as they should be, those of one reason in one line, with what helps."""
    by_reason: dict[str, list[Condition]] = {}
    wrong = [one for one in conditions if one.status == "Unknown" or one.status != _EXPECTED.get(one.type, one.status)]
    for condition in sorted(wrong, key=lambda condition: condition.type not in _FIRST):
        by_reason.setdefault(condition.reason, []).append(condition)
    for reason, same in by_reason.items():
        messages = " ".join(dict.fromkeys(condition.message for condition in same))
        yield f"{', '.join(condition.type for condition in same)}: {reason}. {messages}"
        if reason in EXPLANATIONS:
            yield f"  What helps: {EXPLANATIONS[Reason(reason)].cure}"


MOST_DECISIONS = 20
"""Decisions that are printed; Kubernetes keeps Events for an hour by default (kube-apiserver, `--event-ttl`)."""

_NOTE = re.compile(r"From ([0-9]+) to ([0-9]+) engines: (.*)", re.DOTALL)


def _scaling(now: LiveResource, spec: Spec, limits: AutoscalingSpec) -> Iterator[str]:
    recorded = now.found.status.autoscaling
    yield f"Limits: {limits.min_replicas} to {limits.max_replicas} engines; backend {limits.backend}."
    if recorded is None:
        yield "No number of engines has been decided yet."
    else:
        yield f"Wanted: {recorded.desired_replicas}, since {recorded.last_scale_time}: {recorded.reason}."
        yield from _target(recorded)
        if recorded.start_seconds is not None:
            yield f"A start takes {recorded.start_seconds} s, from the new pod to its readiness."
    condition = now.found.status.condition(ConditionType.SCALING_ACTIVE)
    if condition is not None and (condition.status != "True" or limits.schedule):
        yield f"ScalingActive: {condition.reason}. {condition.message}"
    bypasses_routers = spec.router.strategy is RouterStrategy.EXTERNAL
    status, selector = now.found.status, (now.found.status.selector or "").split(",")
    of_scale = [engine for engine in now.engines if f"{COMPONENT_LABEL}={engine.component}" in selector]
    views = of_scale if status.roles else now.engines
    sample, _ = scaling_sample(views, now.routers, now.samples, Totals(), at=0.0, bypasses_routers=bypasses_routers)
    yield from _now(sample, now.samples)
    yield from _decisions(now.events)


def _target(recorded: AutoscalingStatus) -> Iterator[str]:
    if recorded.target_concurrency is not None:
        factor, bound = recorded.target_factor, f"bound by {recorded.target_bound}"
        why = bound if factor is None else f"{bound}; corrected by measured latencies, times {factor:g}"
        yield f"Target: {recorded.target_concurrency} requests for each engine ({why})."
    if load := recorded.load:
        cached = f", of which the prefix cache has {load.cached:.0%}," if load.cached else ""
        yield f"Requests: {load.prompt_tokens:,} prompt tokens{cached} and {load.answer_tokens:,} answer tokens (mean)."
        if load.accepted is not None:
            yield f"Guessed tokens: the model accepts {load.accepted:.0%} of them."


def _now(sample: ScalingSample, samples: Samples) -> Iterator[str]:
    routers = combined_samples(samples.routers.values())
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
        yield "No Event reports a change of the number of engines."
        return
    yield "Changes:"
    for at, found in noted[-MOST_DECISIONS:]:
        before, after, reason = found.groups()
        yield f"  {at}  {before:>3} -> {after:<3} {'#' * min(int(after), 40):<8} {reason}"
