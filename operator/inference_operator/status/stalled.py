"""Condition Stalled: whether waiting cannot help, and until when it may. Then a user must change something."""

from datetime import datetime

from inference_operator.api.duration import in_words
from inference_operator.api.explanations import EXPLANATIONS, with_cure
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.status import Status
from inference_operator.chain import Chain
from inference_operator.objects.child import ADOPT_ANNOTATION
from inference_operator.objects.names import ROUTER
from inference_operator.sentences import sentences
from inference_operator.status.observation import ConditionVerdict, Observation
from inference_operator.status.ready import cause, ready
from inference_operator.status.shared_rules import paused, refused
from inference_operator.status.write_results import Conflict, Rejected, Waiting
from inference_operator.views.workload import DEFAULT_PROGRESS_DEADLINE
from inference_operator.workload.eviction.obstacles import Lasting


def _not_written(observation: Observation) -> ConditionVerdict | None:
    """A child cannot be written, until somebody resolves it."""
    match observation.blocked:
        case Conflict(ref, holder, left_behind):
            cure = f'take it over with the annotation {ADOPT_ANNOTATION}: "true"' if left_behind else "rename it"
            message = (
                f"{ref} exists and belongs to {holder}."
                f" Delete it, {cure}, or create this InferenceDeployment under another name."
            )
            return ConditionVerdict("True", Reason.NAME_CONFLICT, message)
        case Rejected(ref, message):
            cure = EXPLANATIONS[Reason.CHILD_REJECTED].cure
            return ConditionVerdict("True", Reason.CHILD_REJECTED, with_cure(f"{ref} was rejected: {message}", cure))
        case _:
            return None


def _too_late(observation: Observation) -> ConditionVerdict | None:
    """A first start or a rollout makes no progress, or serving engines are down, for too long."""
    lasting = _lasting(observation, observation.previous)
    if not _deadline_exceeded(observation, lasting):
        return None
    limit = lasting.limit if lasting else observation.engines.deadline
    message = f"For {in_words(limit)}: {_lasting_problem(observation)}"
    return ConditionVerdict("True", Reason.PROGRESS_DEADLINE_EXCEEDED, message)


stalled: Chain[Observation, ConditionVerdict] = Chain(
    (paused("the operator attempts nothing"), refused("True"), _not_written, _too_late),
    otherwise=lambda _: ConditionVerdict("False", Reason.NOT_STALLED, "No blocking problem."),
)

_WITHOUT_DEADLINE = frozenset({Reason.UNSCHEDULABLE, Reason.POD_REJECTED})
"""Problems of a pod that pass: an unschedulable pod may wait for a node for any time, and a pod that a node evicts is
replaced. Every other problem lasts until somebody acts. Pods that nodes reject have a deadline of their own."""


def _deadline_exceeded(observation: Observation, lasting: Lasting | None) -> bool:
    """Whether the current problem has lasted too long.

    Not while a rollout is undecided: the problem is one of the template that it replaces.
    """
    if isinstance(observation.blocked, Waiting) or observation.rollout_undecided:
        return False
    if lasting is not None and observation.inputs.now >= lasting.ends:
        return True
    if observation.unschedulable or observation.wait or _engines_are_down(observation):
        return False  # the Deployment may have given up earlier: on a further engine, or on the specification before
    return observation.engines.failed or observation.routers.failed


def _engines_are_down(observation: Observation) -> bool:
    """Whether engines have served, none is ready now, and no rollout replaces them."""
    return ready(observation).reason is Reason.ENGINES_UNAVAILABLE and not observation.rolling


def _lasting_problem(observation: Observation) -> str:
    if _job_problem(observation) and observation.wait:
        return observation.wait.message
    problem = observation.problem.message if observation.problem else observation.rejection
    if problem:
        return sentences(problem, observation.surge_cure, observation.members)
    state = ready(observation)
    if state.status == "True":
        return "No pod of the new specification has become ready."
    return sentences(state.message, cause(observation))


def progress_deadline(observation: Observation, status: Status) -> datetime | None:
    """The deadline of the current problem; None without one, or where the Deployment measures it itself.

    The status says since when there is the problem.
    """
    lasting = _lasting(observation, status)
    return lasting.ends if lasting else None


def _lasting(observation: Observation, status: Status) -> Lasting | None:
    if observation.paused:
        return None
    problem, deadline = observation.problem, observation.engines.deadline
    if since := _job_problem(observation):
        return Lasting(since, deadline)
    if since := _rejected_since(observation, status):
        # Each new pod is progress for a Deployment, which therefore never reports that it has made none.
        return Lasting(since, min(deadline, DEFAULT_PROGRESS_DEADLINE))
    if observation.obstacle:
        return observation.obstacle
    if ready(observation).status == "True" or observation.unschedulable:
        return None
    if problem and problem.pod.created and problem.reason not in _WITHOUT_DEADLINE:
        return Lasting(max(problem.pod.created, _down_since(observation, status, problem.pod.component)), deadline)
    if _engines_are_down(observation):
        down = _down_since(observation, status)
        created = (engine.created for engine in observation.staying if not engine.failed)
        return Lasting(max(down, min(filter(None, created), default=down)), deadline)
    return None


def _rejected_since(observation: Observation, status: Status) -> datetime | None:
    """Since when nodes reject the pods of a first start, of a rollout, or of engines that have served; None if not."""
    problem = observation.problem
    if problem is None or not problem.pod.rejected or problem.pod.created is None:
        return None
    if ready(observation).status == "True" and not observation.rolling:
        return None  # a further engine, which nobody waits for
    reconciling, stalled = status.condition(ConditionType.RECONCILING), status.condition(ConditionType.STALLED)
    if stalled and stalled.status == "True":
        return problem.pod.created
    works = reconciling is not None and reconciling.status == "True"
    return max(problem.pod.created, reconciling.since if reconciling and works else observation.inputs.now)


def _job_problem(observation: Observation) -> datetime | None:
    """Since when the pod of a Job does not run, which engines wait for; None if it runs, or may still do so."""
    wait = observation.wait
    return wait.since if wait and wait.reason is not Reason.UNSCHEDULABLE else None


def _down_since(observation: Observation, status: Status, component: str = "") -> datetime:
    """Since when requests fail because the component is not available; now if that begins now."""
    available = ConditionType.ROUTER_AVAILABLE if component == ROUTER else ConditionType.ENGINES_AVAILABLE
    before = [status.condition(kind) for kind in (ConditionType.READY, available)]
    return max(
        condition.since if condition and condition.status == "False" else observation.inputs.now for condition in before
    )
