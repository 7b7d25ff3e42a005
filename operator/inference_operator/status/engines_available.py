"""Condition EnginesAvailable: whether as many engines as desired are ready."""

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.chain import Chain
from inference_operator.diagnosis.pending_causes import rejection_reason
from inference_operator.objects.names import ROUTER
from inference_operator.sentences import sentences
from inference_operator.status.network import slow_network
from inference_operator.status.observation import ConditionVerdict, Observation
from inference_operator.status.reconciling import reconciling
from inference_operator.status.shared_rules import ready_of
from inference_operator.status.stalled import stalled


def _refused(observation: Observation) -> ConditionVerdict | None:
    if observation.refusal is None or observation.answering.exists:
        return None
    message = "There are no engines: the specification cannot be served."
    return ConditionVerdict("False", observation.refusal.reason, message)


def _scaled_to_zero(observation: Observation) -> ConditionVerdict | None:
    if not observation.at_zero:
        return None
    reason = observation.engines_outdated or Reason.SCALED_TO_ZERO
    return ConditionVerdict("True", reason, sentences("Scaled to zero.", _kept(observation)))


def _stalled(observation: Observation) -> ConditionVerdict | None:
    if not observation.stall:
        return None
    return ConditionVerdict("False", Reason.ENGINE_STALLED, f"{observation.stall}; it is being replaced.")


def _serving(observation: Observation) -> ConditionVerdict | None:
    if not _enough_ready(observation):
        return None
    counted = _counted(observation)
    if observation.out_of_traffic:
        return ConditionVerdict("False", Reason.ENGINE_NOT_PROGRESSING, counted)
    slow = next(filter(None, (slow_network(observation.network(role)) for role in observation.roles)), "")
    reason = observation.engines_outdated or (Reason.NETWORK_DEVICES_UNUSED if slow else Reason.SERVING)
    return ConditionVerdict("True", reason, sentences(counted, _kept(observation), _unread(observation), slow))


def _pod_refused(observation: Observation) -> ConditionVerdict | None:
    if not observation.engines.rejection:
        return None
    message = "" if _is_explained(observation) else observation.rejection
    reason = rejection_reason(observation.engines.rejection)
    return ConditionVerdict("False", reason, sentences(_counted(observation), message))


def _pod_problem(observation: Observation) -> ConditionVerdict | None:
    problem = observation.problem
    if problem is None or problem.pod.component == ROUTER:
        return None
    message = "" if _is_explained(observation) else sentences(problem.message, observation.members)
    return ConditionVerdict("False", problem.reason, sentences(_counted(observation), message))


def _being_replaced(observation: Observation) -> ConditionVerdict | None:
    """An earlier round found a stalled engine, and its replacement is not ready."""
    message = _stall_before(observation)
    return ConditionVerdict("False", Reason.ENGINE_STALLED, message) if message else None


def _too_few(observation: Observation) -> ConditionVerdict:
    reason = Reason.STARTING if observation.answering.ready == 0 else Reason.ENGINES_UNAVAILABLE
    members = "" if _is_explained(observation) else observation.members
    return ConditionVerdict("False", reason, sentences(_counted(observation), members))


engines_available: Chain[Observation, ConditionVerdict] = Chain(
    (_refused, _scaled_to_zero, _stalled, _serving, _pod_refused, _pod_problem, _being_replaced),
    otherwise=_too_few,
)


def _is_explained(observation: Observation) -> bool:
    """Whether another condition has the cause, which is not repeated."""
    return "True" in (reconciling(observation).status, stalled(observation).status)


def _enough_ready(observation: Observation) -> bool:
    return observation.answering.ready >= observation.desired and not _stall_before(observation)


def _counted(observation: Observation) -> str:
    counted = ready_of(observation.answering.ready, observation.desired, "engine")
    silent = (f"Pod `{name}` makes no progress and gets no new requests." for name in observation.out_of_traffic)
    return sentences(counted, *silent)


def _kept(observation: Observation) -> str:
    return "Engines keep something older: `Ready` says what, and the cure." if observation.engines_outdated else ""


def _unread(observation: Observation) -> str:
    """Sentence about engines whose hanging would not be found, with the cure; empty if all metrics can be read."""
    if not observation.unread:
        return ""
    return (
        f"The metrics of {observation.unread} of them cannot be read, so an engine that hangs is not found: "
        "let the operator's pods reach the port `http` of engines (NetworkPolicies, service mesh)."
    )


def _stall_before(observation: Observation) -> str:
    """The message about a stalled engine, until its replacement is ready; empty if there is none.

    An engine that is being deleted may still be ready, and replaces none.
    """
    before = observation.previous.condition(ConditionType.ENGINES_AVAILABLE)
    if before is None or before.reason != Reason.ENGINE_STALLED:
        return ""
    serving = sum(engine.is_serving for role in observation.roles for engine in role.live.engines)
    return before.message if serving < observation.engines.desired else ""
