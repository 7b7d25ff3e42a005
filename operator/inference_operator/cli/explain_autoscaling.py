"""`infd explain autoscaling NAME`: the requests now, the last decision, and those before it."""

import re
from collections.abc import Iterator, Sequence

from inference_operator.api.reasons import ConditionType
from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.api.status import AutoscalingStatus
from inference_operator.autoscaling.decision import ScalingSample
from inference_operator.autoscaling.demand import Totals, scaling_sample
from inference_operator.cli.live_resource import LiveEvent, LiveResource
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.status.events import SCALED_DOWN, SCALED_UP
from inference_operator.views.engine import engines_of
from inference_operator.views.samples import RouterSample, Samples, combined_samples

MOST_DECISIONS = 20
"""Decisions that are printed; Kubernetes keeps Events for an hour by default (kube-apiserver, `--event-ttl`)."""

_NOTE = re.compile(r"From ([0-9]+) to ([0-9]+) engines: (.*)", re.DOTALL)


def scaling_explanation(observed: LiveResource) -> Iterator[str]:
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
