"""Condition ScalingActive: whether the number of engines follows the demand."""

from collections.abc import Sequence

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.status import AutoscalingStatus
from inference_operator.autoscaling.conflict import ScalingConflict
from inference_operator.autoscaling.external_state import ExternalState
from inference_operator.status.facts import Facts
from inference_operator.status.verdict import Verdict

MOST_NAMES = 5
"""Names of pods in a message."""


def scaling_active(facts: Facts) -> Verdict | None:
    """Whether the number of engines follows the demand; None without autoscaling."""
    autoscaling = facts.scaling.status
    if autoscaling is None:
        return None
    if facts.paused:
        return Verdict("False", Reason.PAUSED, "Paused: the number of engines stays while `spec.paused` is true.")
    if facts.scaling.autoscaler is not None:
        return _of_autoscaler(facts.scaling.autoscaler, facts, autoscaling)
    if facts.scaling.conflict is not None and (told := _conflict(facts.scaling.conflict, facts, autoscaling)):
        return told
    if facts.scaling.result is None:
        return _before_the_first_sample(facts)
    if missing := facts.scaling.result.missing:
        return Verdict("False", Reason.METRICS_MISSING, _missing(missing, autoscaling.desired_replicas))
    wanted = f"{_engines(autoscaling.desired_replicas)} wanted: {autoscaling.reason}.{_scheduled(facts)}"
    if facts.scaling.without_gpu:
        what = f"{facts.scaling.without_gpu} of them have no GPU: add nodes, or lower `autoscaling.maxReplicas`."
        return Verdict("True", Reason.CAPACITY_LIMITED, f"{wanted} {what}")
    return Verdict("True", Reason.FOLLOWING_DEMAND, f"{wanted} {_without_effect(facts, autoscaling)}".strip())


def _of_autoscaler(state: ExternalState, facts: Facts, autoscaling: AutoscalingStatus) -> Verdict:
    """What a HorizontalPodAutoscaler or KEDA does, and how many engines follow from it."""
    wanted = f"{_engines(autoscaling.desired_replicas)} wanted."
    if state.reason is Reason.FOLLOWING_AUTOSCALER:
        if facts.scaling.without_gpu:
            cure = "add nodes, or lower `autoscaling.maxReplicas`."
            message = f"{state.message} {wanted} {facts.scaling.without_gpu} of them have no GPU: {cure}"
            return Verdict("True", Reason.CAPACITY_LIMITED, message)
        return Verdict("True", state.reason, f"{state.message} {wanted}{_scheduled(facts)}")
    pending = state.reason is Reason.AUTOSCALER_PENDING
    return Verdict("Unknown" if pending else "False", state.reason, f"{state.message} {wanted}")


def _conflict(conflict: ScalingConflict, facts: Facts, autoscaling: AutoscalingStatus) -> Verdict | None:
    """That another autoscaler acts beside the operator; None if none does."""
    cure = "delete it, or set `autoscaling.backend` to `HPA` or `KEDA` to scale by one that the operator creates"
    wanted = f"{_engines(autoscaling.desired_replicas)} wanted"
    if conflict.on_workload:
        names = " and ".join(map(str, conflict.on_workload[:MOST_NAMES]))
        what = f"{names} acts on the Deployment of the engines, so the operator leaves its number ({wanted})"
        return Verdict("False", Reason.AUTOSCALER_CONFLICT, f"{what}. It knows no held request: {cure}.")
    if conflict.on_scale:
        names = " and ".join(map(str, conflict.on_scale[:MOST_NAMES]))
        what = f"{names} acts on `/scale` of {facts.key.name}, which has no effect with the backend `BuiltIn`"
        return Verdict("True", Reason.AUTOSCALER_CONFLICT, f"{what} ({wanted}): {cure}.")
    return _before_the_first_sample(facts) if conflict.holds else None


def _before_the_first_sample(facts: Facts) -> Verdict:
    """A new leader knows nothing for some seconds: what was said before stays."""
    before = facts.previous.condition(ConditionType.SCALING_ACTIVE)
    reasons = {str(reason): reason for reason in Reason}
    if before is not None and before.reason in reasons and before.reason != Reason.PAUSED:
        return Verdict(before.status, reasons[before.reason], before.message)
    return Verdict("Unknown", Reason.METRICS_PENDING, "The metrics of routers and engines have not been read yet.")


def _missing(missing: Sequence[str], replicas: int) -> str:
    names = ", ".join(f"`{name}`" for name in missing[:MOST_NAMES])
    more = f" and {len(missing) - MOST_NAMES} more" if len(missing) > MOST_NAMES else ""
    return (
        f"The metrics of {names}{more} cannot be read, so no engine is taken away ({_engines(replicas)} wanted)."
        " Check that the pods run, and that network policies admit the operator to them."
    )


def _scheduled(facts: Facts) -> str:
    """That the schedule asks for more engines than `minReplicas` now."""
    floor = facts.scaling.floor
    if floor is None or floor.entry is None:
        return ""
    until = f" until {floor.until:%Y-%m-%dT%H:%M:%SZ}" if floor.until else ""
    return f" `autoscaling.schedule[{floor.entry}]` keeps at least {floor.replicas}{until}."


def _without_effect(facts: Facts, autoscaling: AutoscalingStatus) -> str:
    """That `kubectl scale` changes nothing, where the numbers differ."""
    if facts.scaling.requested in (None, autoscaling.desired_replicas):
        return ""
    limits = "`autoscaling.minReplicas` and `.maxReplicas`"
    return f"`spec.replicas` is {facts.scaling.requested} and has no effect; {limits} have one."


def _engines(number: int) -> str:
    return "1 engine is" if number == 1 else f"{number} engines are"
