"""Condition Ready: whether a request would be answered."""

from collections.abc import Mapping

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.chain import Chain
from inference_operator.diagnosis.pending_causes import rejection_reason
from inference_operator.sentences import sentences
from inference_operator.status.observation import ConditionVerdict, Observation
from inference_operator.status.shared_rules import ready_of, refused, refused_part, waiting
from inference_operator.status.write_results import Conflict, Failed, Rejected, Waiting

_OBSTACLES: Mapping[type[Conflict | Waiting | Rejected | Failed], Reason] = {
    Conflict: Reason.NAME_CONFLICT,
    Waiting: Reason.WAITING_FOR_DELETION,
    Rejected: Reason.CHILD_REJECTED,
    Failed: Reason.REQUEST_FAILED,
}


def missing_node(observation: Observation) -> str:
    """Sentences about GPUs that no node has, and the cure; empty if that is not why a pod waits."""
    if not (observation.unschedulable and observation.missing_gpu_kind):
        return ""
    autoscaler = observation.problem.autoscaler if observation.problem else ""
    return sentences(
        f"No node has {observation.missing_gpu_kind} yet.",
        autoscaler,
        f"{'Otherwise add' if autoscaler else 'Wait for the node autoscaler, add'} such a node,"
        " or name other GPUs in `spec.hardware.gpu.products`.",
    )


def _cause_reason(observation: Observation) -> Reason:
    """The reason of the cause that `cause` describes; `Starting` if none is known."""
    if observation.rejected_workload:
        return rejection_reason(observation.rejected_workload.rejection)
    if observation.lost:
        return Reason.NODE_LOST
    if missing_node(observation):
        return Reason.WAITING_FOR_NODE
    if observation.gang_backoff and not observation.problem:
        return Reason.WAITING_FOR_OLDER_GROUP
    return observation.problem.reason if observation.problem else Reason.STARTING


def cause(observation: Observation) -> str:
    """Why a pod does not run, and what its group waits for; else the progress of a start; empty if neither is known."""
    problem = sentences(observation.problem.message if observation.problem else "", observation.gang_backoff)
    obstacle = observation.rejection or observation.lost or missing_node(observation) or problem
    return sentences(obstacle, observation.members) if obstacle else observation.progress


def _engines_ready(observation: Observation) -> str:
    return ready_of(observation.answering.ready, observation.desired, "engine")


_AFTER_SERVING = frozenset({Reason.SERVING, Reason.ENGINES_UNAVAILABLE, Reason.ROUTER_UNAVAILABLE})


def _has_served(observation: Observation) -> bool:
    """Whether engines have been ready, as far as the previous Ready condition shows.

    After any other reason, such as a name conflict, it counts as a first start again.
    """
    before = observation.previous.condition(ConditionType.READY)
    if before is None:
        return False
    return before.reason in _AFTER_SERVING or (before.reason, before.status) == (Reason.PAUSED, "True")


def _paused(observation: Observation) -> ConditionVerdict | None:
    """The user paused it: what runs is counted, without a cause, since the operator does nothing about it."""
    if not observation.paused:
        return None
    idle = observation.at_zero and observation.connected and observation.routable
    engines = f"{observation.answering.ready} of {observation.desired} engines"
    message = (
        "Paused: the operator changes nothing while `spec.paused` is true."
        f" {engines} and {observation.routers.ready} routers are ready."
    )
    return ConditionVerdict("True" if observation.serving or idle else "False", Reason.PAUSED, message)


def _scaled_to_zero(observation: Observation) -> ConditionVerdict | None:
    if not (observation.at_zero and observation.connected and observation.routable):
        return None
    by_demand, by_hand = "The next request starts an engine.", "Set `spec.replicas` to 1 or more to serve."
    is_scaled = any(scaling.status for scaling in observation.scaling.values())
    message = sentences("Scaled to zero.", by_demand if is_scaled else by_hand, observation.notice)
    return ConditionVerdict("True", Reason.SCALED_TO_ZERO, message)


def _serving(observation: Observation) -> ConditionVerdict | None:
    """Engines and routers are ready; the message says if the specification is refused."""
    if not observation.serving:
        return None
    message = sentences(_engines_ready(observation), refused_part(observation), observation.notice)
    return ConditionVerdict("True", Reason.SERVING, message)


def _child_not_written(observation: Observation) -> ConditionVerdict | None:
    """A child cannot be written. A failed request counts only while something is missing."""
    blocked = observation.blocked
    if blocked is None or (isinstance(blocked, Failed) and observation.complete):
        return None
    return ConditionVerdict("False", _OBSTACLES[type(blocked)], "An object that serving needs does not exist.")


def _no_router(observation: Observation) -> ConditionVerdict | None:
    if observation.routable or not (observation.at_zero or observation.answering.ready):
        return None
    return ConditionVerdict("False", Reason.ROUTER_UNAVAILABLE, "No router is ready.")


def _no_engine(observation: Observation) -> ConditionVerdict | None:
    """Engines have served before, and none is ready now."""
    if not _has_served(observation):
        return None
    return ConditionVerdict("False", Reason.ENGINES_UNAVAILABLE, "No engine is ready.")


ready: Chain[Observation, ConditionVerdict] = Chain(
    (
        _paused,
        _scaled_to_zero,
        _serving,
        refused("False", "The specification is refused."),
        _child_not_written,
        _no_router,
        _no_engine,
        waiting("False", "Engines wait for the model."),
    ),
    otherwise=lambda observation: ConditionVerdict("False", _cause_reason(observation), _engines_ready(observation)),
)
