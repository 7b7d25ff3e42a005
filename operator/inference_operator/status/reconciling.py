"""Condition Reconciling: whether the operator or Kubernetes still works towards the specification."""

from collections.abc import Mapping

from inference_operator.api.reasons import Reason
from inference_operator.api.spec import RolloutStrategy
from inference_operator.api.status import StartupStep
from inference_operator.chain import Chain
from inference_operator.diagnosis.pending_causes import rejection_reason
from inference_operator.sentences import sentences
from inference_operator.status.observation import ConditionVerdict, Observation
from inference_operator.status.ready import cause, missing_node, ready
from inference_operator.status.shared_rules import paused, waiting
from inference_operator.status.stalled import stalled
from inference_operator.status.write_results import Failed, Waiting
from inference_operator.workload.eviction.rollout import WHY, Rollout, RolloutReason

UNDECIDED_ROLLOUT = "Engines will be replaced once free GPUs are known."
"""Message while a rollout waits for the lookup that decides its strategy."""


def _refused(observation: Observation) -> ConditionVerdict | None:
    if observation.refusal is None:
        return None
    by_policy = observation.refusal.reason is Reason.REFUSED_BY_POLICY
    until = "the cluster's policy allows it" if by_policy else "the refused edit is changed"
    message = f"Engines keep their specification until {until}."
    return ConditionVerdict("False", Reason.SETTLED, message)


def _write_pending(observation: Observation) -> ConditionVerdict | None:
    """A write waits for a deletion, or failed and will be repeated."""
    match observation.blocked:
        case Waiting(ref):
            return ConditionVerdict("True", Reason.WAITING_FOR_DELETION, f"{ref} is still being deleted.")
        case Failed(ref, cause):
            message = f"{ref} could not be changed: {cause}. The operator retries with increasing delays."
            return ConditionVerdict("True", Reason.REQUEST_FAILED, message)
        case _:
            return None


def _stalled(observation: Observation) -> ConditionVerdict | None:
    if stalled(observation).status != "True":
        return None
    return ConditionVerdict("False", Reason.SETTLED, "Waiting does not help.")


def _undecided_rollout(observation: Observation) -> ConditionVerdict | None:
    if not (_settled(observation) and observation.rollout_undecided):
        return None
    return ConditionVerdict("True", Reason.ROLLING_OUT, UNDECIDED_ROLLOUT)


def _moving(observation: Observation) -> ConditionVerdict | None:
    is_engine = any(role.change.move.moves for role in observation.decided_roles)
    if not (_settled(observation) and (is_engine or observation.routers.temporary)):
        return None
    what = "An engine" if is_engine else "The only router"
    message = sentences(f"{what} moves away from a node that is leaving.", cause(observation))
    return ConditionVerdict("True", Reason.NODE_LEAVING, message)


def _done(observation: Observation) -> ConditionVerdict | None:
    if not _settled(observation):
        return None
    return ConditionVerdict("False", Reason.SETTLED, "No changes are in progress.")


def _settled(observation: Observation) -> bool:
    return ready(observation).status == "True" and not observation.rolling


def _pod_refused(observation: Observation) -> ConditionVerdict | None:
    workload = observation.rejected_workload
    message = sentences(observation.rejection, observation.surge_cure)
    return ConditionVerdict("True", rejection_reason(workload.rejection), message) if workload else None


def _rollout_without_gpu(observation: Observation) -> ConditionVerdict | None:
    """A new engine has no GPU, and the rollout ends old engines for it or waits for a node: that is no problem."""
    rollout = observation.rollout
    if not (rollout and observation.problem and observation.unschedulable and observation.engines.rolling):
        return None
    reason = _WITHOUT_GPU.get(rollout.why)
    message = sentences(_strategy(rollout), observation.problem.message, observation.members)
    return ConditionVerdict("True", reason, message) if reason else None


_WITHOUT_GPU: Mapping[RolloutReason, Reason] = {
    RolloutReason.UNSCHEDULABLE: Reason.SWITCHED_TO_REPLACE,
    RolloutReason.NO_NODE_CAME: Reason.SWITCHED_TO_REPLACE,
    RolloutReason.QUOTA_FULL: Reason.SWITCHED_TO_REPLACE,
    RolloutReason.VOLUME_IN_USE: Reason.SWITCHED_TO_REPLACE,
    RolloutReason.ONE_NODE: Reason.SWITCHED_TO_REPLACE,
    RolloutReason.NODE_MAY_COME: Reason.WAITING_FOR_NODE,
}
"""Why the strategy of a rollout was chosen, and the reason that it gives while a new engine has no GPU."""


def _missing_node(observation: Observation) -> ConditionVerdict | None:
    message = missing_node(observation)
    text = sentences(message, observation.members)
    return ConditionVerdict("True", Reason.WAITING_FOR_NODE, text) if message else None


def _pod_problem(observation: Observation) -> ConditionVerdict | None:
    problem = observation.problem
    if problem is None:
        return None
    message = sentences(problem.message, observation.surge_cure, observation.gang_backoff, observation.members)
    return ConditionVerdict("True", problem.reason, message)


def _lost_node(observation: Observation) -> ConditionVerdict | None:
    """A node with a pod of a group does not answer: what is wrong with its other pods follows from that."""
    message = sentences(observation.lost, observation.members)
    return ConditionVerdict("True", Reason.NODE_LOST, message) if observation.lost else None


def _backed_off(observation: Observation) -> ConditionVerdict | None:
    message = observation.gang_backoff
    return ConditionVerdict("True", Reason.WAITING_FOR_OLDER_GROUP, message) if message else None


def _not_ready(observation: Observation) -> ConditionVerdict | None:
    state = ready(observation)
    if state.status == "True":
        return None
    return ConditionVerdict("True", state.reason, sentences(state.message, cause(observation)))


def _rolling_out(observation: Observation) -> ConditionVerdict:
    message = sentences(
        "Pods of the previous specification are being replaced.",
        _strategy(observation.rollout) if observation.engines.rolling and observation.rollout else "",
        observation.progress,
        observation.surge_cure,
        _download(observation),
    )
    return ConditionVerdict("True", Reason.ROLLING_OUT, message)


reconciling: Chain[Observation, ConditionVerdict] = Chain(
    (
        paused("no work goes on"),
        _refused,
        _write_pending,
        _stalled,
        waiting("True"),
        _undecided_rollout,
        _moving,
        _done,
        _pod_refused,
        _rollout_without_gpu,
        _lost_node,
        _missing_node,
        _pod_problem,
        _backed_off,
        _not_ready,
    ),
    otherwise=_rolling_out,
)


def _download(observation: Observation) -> str:
    """The sentence about a new engine that downloads the model while others serve; empty if none does."""
    if observation.startup is None or observation.startup.step is not StartupStep.DOWNLOADING_MODEL:
        return ""
    return "Earlier engines serve until it is ready. With `spec.cache` a Job downloads before the rollout."


_STRATEGIES: Mapping[RolloutStrategy, str] = {
    RolloutStrategy.SURGE: "Each new engine starts before an old one ends",
    RolloutStrategy.REPLACE: "Each old engine ends before a new one starts",
}


def _strategy(rollout: Rollout) -> str:
    return f"{_STRATEGIES[rollout.strategy]}, {WHY[rollout.why]}."
