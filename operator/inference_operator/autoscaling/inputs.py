"""The ends of the autoscaling loop: the request that a decision starts from, and the replicas that follow from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.autoscaling import AutoscalingBackend, AutoscalingSpec
from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.api.status import AutoscalingStatus
from inference_operator.autoscaling.decision import Decision, ScalingSettings
from inference_operator.autoscaling.external_state import ExternalState, followed_replicas
from inference_operator.autoscaling.target import Target, TargetBound
from inference_operator.autoscaling.target_correction import LatencySample
from inference_operator.roles.context import RoleContext
from inference_operator.sizing.serving import MOST_SPREAD, TYPICAL_LOAD, Load
from inference_operator.views.engine import EngineView


@dataclass(frozen=True, slots=True)
class Floor:
    replicas: int
    entry: int | None = None
    """Index of the entry of the schedule that asks for them; None for `minReplicas`."""
    until: datetime | None = None
    due: datetime | None = None
    """The next begin or end of an entry; None without a schedule."""

    @property
    def field(self) -> str:
        return "autoscaling.minReplicas" if self.entry is None else f"autoscaling.schedule[{self.entry}].minReplicas"


def floor_at(spec: AutoscalingSpec, now: datetime) -> Floor:
    due = min((moment for entry in spec.schedule for moment in entry.changes(now) if moment), default=None)
    active = [
        (entry.min_replicas, -index, end)
        for index, entry in enumerate(spec.schedule)
        if (end := entry.closes_at(now)) is not None
    ]
    replicas, index, until = max(active, default=(0, 0, None), key=lambda entry: entry[:2])
    if replicas <= spec.min_replicas:
        return Floor(spec.min_replicas, due=due)
    return Floor(replicas, -index, until, due)


UNKNOWN_START_SECONDS = 300.0
"""Assumed start time before one is measured; also the smallest default window of scaling down."""

MAX_START_SECONDS = 3600.0
"""A longer start waited for something that more engines do not cure, such as a quota."""

START_STEP = 0.2
"""Part by which a measured start differs from the recorded one before it replaces it: each change is a write."""


@dataclass(frozen=True, slots=True)
class ScalingInputs:
    settings: ScalingSettings
    replicas: int
    bypasses_routers: bool
    target: Target
    role: str
    plan: str = ""
    """The plan of the engines that the target belongs to."""
    share: float = 1.0
    """Part of the requests that wait in routers for which its engines should be sized, 1 where no other role gets any.
    """
    has_scale: bool = True
    of_prompts: bool = False
    """Whether its engines compute prompts for others, which routers count apart."""


@dataclass(frozen=True, slots=True)
class ScalingResult:
    decision: Decision
    missing: tuple[str, ...] = ()
    """Pods that did not answer in several rounds; empty while one round may have been chance."""
    factor: float = 1.0
    plan: str = ""
    load: Load = TYPICAL_LOAD
    judged: LatencySample | None = None
    """The latencies by which the factor was judged last; None before."""


def scaling_inputs(
    context: RoleContext,
    recorded: AutoscalingStatus | None,
    *,
    target: Target,
    plan: str,
    replicas: int,
    floor: Floor | None,
    share: float,
) -> ScalingInputs | None:
    """The parameters of the next decisions; None where the operator does not decide."""
    role, autoscaling = context.spec, context.spec.stated.autoscaling
    if autoscaling is None or autoscaling.backend is not AutoscalingBackend.BUILT_IN:
        return None
    settings = ScalingSettings(
        min_replicas=floor.replicas if floor else autoscaling.min_replicas,
        max_replicas=autoscaling.max_replicas,
        target_concurrency=target.concurrency,
        start_seconds=start_seconds(recorded, context.live.engines) or UNKNOWN_START_SECONDS,
        idle_seconds=autoscaling.idle_timeout.total_seconds(),
        scale_down_seconds=autoscaling.scale_down_delay.total_seconds(),
        least_seconds=target.least_seconds,
    )
    bypasses_routers = role.stated.router.strategy is RouterStrategy.EXTERNAL or not share
    return ScalingInputs(
        settings, replicas, bypasses_routers, target, role.name, plan, share, role.has_scale, role.computes_prompts
    )


def corrected_target(
    computed: Target,
    recorded: AutoscalingStatus | None,
    result: ScalingResult | None,
    *,
    plan: str,
    recorded_plan: str,
    is_edited: bool,
) -> Target:
    """The computed target with its correction: the latest one of this plan, else the recorded one, else none.

    Another release may compute another target from the same. Engines then keep the number of requests by which they
    were judged, within the rounding of the status, and the factor follows: that of the former formula corrected the
    former target. After an edit of the specification the factor stays: it tells how wrong the engine's speed is, and
    the target is computed for another objective.

    Args:
        is_edited: whether the status was computed from another specification.
    """
    if result is not None and result.plan == plan:
        return computed.corrected(result.factor)
    if recorded is None or recorded_plan != plan:
        return computed
    factor, judged = recorded.target_factor, recorded.target_concurrency
    found = computed.corrected(1.0 if factor is None else factor)
    is_unjudged = factor is None and recorded.kept is None
    if is_edited or is_unjudged or judged is None or recorded.target_bound == TargetBound.REQUESTED:
        return found
    kept = min(max(found.concurrency, judged - ROUNDING), judged + ROUNDING)
    return found if kept == found.concurrency else computed.corrected(kept / computed.computed)


ROUNDING = 0.499
"""Most requests by which the recorded target differs from its own: a little less than half, so that it is rounded to
the same number again."""


def measured_load(recorded: AutoscalingStatus | None, result: ScalingResult | None) -> Load:
    """The lengths of the requests: as measured last, else as recorded, else those of typical requests.

    Whoever may write the status may record impossible lengths; the nearest possible ones stand for them.
    """
    if result is not None:
        return result.load
    if recorded is None or recorded.load is None:
        return TYPICAL_LOAD
    load = recorded.load
    return Load(
        float(max(1, load.prompt_tokens)),
        float(max(1, load.answer_tokens)),
        min(max(load.cached, 0.0), 1.0),
        min(max(load.prompt_spread, 0.0), MOST_SPREAD),
        min(max(load.answer_spread, 0.0), MOST_SPREAD),
        None if load.accepted is None else min(max(load.accepted, 0.0), 1.0),
    )


def autoscaled_replicas(
    spec: Spec,
    recorded: AutoscalingStatus | None,
    *,
    live: int | None,
    result: ScalingResult | None,
    external: ExternalState | None = None,
    floor: Floor | None = None,
    is_own: bool = True,
) -> int:
    """The number of engines that is wanted now.

    With autoscaling: of the latest decision; else that of the live Deployment; else as recorded; else `spec.replicas`,
    with which a new service proves that its model works. Always within the limits. The Deployment is written before the
    status, so an operator that ended between the two has left an old record.

    Args:
        is_own: whether the live number was decided by the operator; otherwise the record counts.
    """
    if spec.autoscaling is None:
        return spec.replicas
    now = live if recorded is None or (live is not None and is_own) else recorded.desired_replicas
    if external is not None:
        number = followed_replicas(spec.replicas, spec.replicas if now is None else now, external)
    elif result is not None:
        number = result.decision.replicas
    else:
        number = spec.replicas if now is None else now
    least = floor.replicas if floor else spec.autoscaling.min_replicas
    return min(max(number, least), spec.autoscaling.max_replicas)


def start_seconds(recorded: AutoscalingStatus | None, engines: Sequence[EngineView]) -> float | None:
    """Seconds from a new engine to its readiness, with the wait for a node; None if unknown.

    The newest ready engine is measured. A value that differs little from the recorded one does not replace it.
    """
    before = recorded.start_seconds if recorded else None
    starts = [
        (engine.created, (engine.ready_since - engine.created).total_seconds())
        for engine in engines
        if engine.ready and engine.created and engine.ready_since
    ]
    if not starts:
        return before
    measured = min(max(max(starts)[1], 1.0), MAX_START_SECONDS)
    return before if before and abs(measured - before) <= START_STEP * before else float(round(measured))
