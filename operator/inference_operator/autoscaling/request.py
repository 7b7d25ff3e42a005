"""What autoscaling asks for: the settings of a decision, and the number of engines that follows from its result."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.autoscaling import AutoscalingBackend
from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.api.status import AutoscalingStatus
from inference_operator.autoscaling.autoscaler_state import AutoscalerState, followed_replicas
from inference_operator.autoscaling.decision import Decision, ScalingSettings
from inference_operator.autoscaling.target import target_concurrency
from inference_operator.sizing.plan import Plan
from inference_operator.views.pod import PodView

UNKNOWN_START_SECONDS = 300.0
"""Time of a start before one was measured; the window of scaling down is at least as long by default."""

MAX_START_SECONDS = 3600.0
"""A longer start waited for something that more engines do not cure, such as a quota."""

START_STEP = 0.2
"""Part by which a measured start differs from the recorded one before it replaces it: each change is a write."""


@dataclass(frozen=True, slots=True)
class ScalingRequest:
    """What the next decisions about one InferenceDeployment depend on, besides samples."""

    settings: ScalingSettings
    replicas: int
    """The number of engines that is wanted now."""
    external: bool
    """Whether something else than our routers sends requests."""


@dataclass(frozen=True, slots=True)
class ScalingResult:
    """The latest decision, and the pods whose metrics it lacked."""

    decision: Decision
    missing: tuple[str, ...] = ()
    """Pods that did not answer in several rounds; empty while one round may have been chance."""


def scaling_request(
    spec: Spec,
    recorded: AutoscalingStatus | None,
    *,
    plan: Plan,
    max_num_seqs: int,
    replicas: int,
    engines: Sequence[PodView],
) -> ScalingRequest | None:
    """What decisions of the operator depend on; None where it does not decide.

    Args:
        spec: the specification.
        recorded: the last decision that was written.
        plan: the pinned plan of one engine.
        max_num_seqs: sequences that one engine computes at once.
        replicas: the number of engines that is wanted now.
        engines: their pods.
    """
    autoscaling = spec.autoscaling
    if autoscaling is None or autoscaling.backend is not AutoscalingBackend.BUILT_IN:
        return None
    target = target_concurrency(plan, max_num_seqs=max_num_seqs, requested=autoscaling.target_concurrency)
    settings = ScalingSettings(
        min_replicas=autoscaling.min_replicas,
        max_replicas=autoscaling.max_replicas,
        target_concurrency=target.concurrency,
        start_seconds=start_seconds(recorded, engines) or UNKNOWN_START_SECONDS,
        idle_seconds=autoscaling.idle_timeout.total_seconds(),
        scale_down_seconds=autoscaling.scale_down_delay.total_seconds(),
    )
    return ScalingRequest(settings, replicas, spec.router.strategy is RouterStrategy.EXTERNAL)


def wanted_replicas(
    spec: Spec,
    recorded: AutoscalingStatus | None,
    *,
    live: int | None,
    result: ScalingResult | None,
    autoscaler: AutoscalerState | None = None,
) -> int:
    """The number of engines that is wanted now.

    With autoscaling: of the latest decision; else as recorded; else as many as run; else `spec.replicas`, with which a
    new service proves that its model works. Always within the limits.

    Args:
        spec: the specification.
        recorded: the last decision that was written.
        live: replicas of the live Deployment; None without one.
        result: the latest decision of this process; None before the first one.
        autoscaler: the other autoscaler that decides; None if the operator does.
    """
    if spec.autoscaling is None:
        return spec.replicas
    now = recorded.desired_replicas if recorded else live
    if autoscaler is not None:
        number = followed_replicas(spec.replicas, spec.replicas if now is None else now, autoscaler)
    elif result is not None:
        number = result.decision.replicas
    else:
        number = spec.replicas if now is None else now
    return min(max(number, spec.autoscaling.min_replicas), spec.autoscaling.max_replicas)


def start_seconds(recorded: AutoscalingStatus | None, engines: Sequence[PodView]) -> float | None:
    """Seconds from a new engine to its readiness, with the wait for a node; None if unknown.

    The newest ready engine is measured. A value that differs little from the recorded one does not replace it.
    """
    before = recorded.start_seconds if recorded else None
    starts = [
        (pod.created, (pod.ready_since - pod.created).total_seconds())
        for pod in engines
        if pod.ready and pod.created and pod.ready_since
    ]
    if not starts:
        return before
    measured = min(max(max(starts)[1], 1.0), MAX_START_SECONDS)
    return before if before and abs(measured - before) <= START_STEP * before else float(round(measured))
