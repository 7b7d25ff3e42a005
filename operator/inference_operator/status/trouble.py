"""Why a pod does not run, as far as is known, and what has to be looked up to know more."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.explanations import EXPLANATIONS, with_cure
from inference_operator.api.reasons import Reason
from inference_operator.engines.chosen import chosen_engine
from inference_operator.engines.engine import Diagnosis
from inference_operator.observed.look import Log, Look, Unseen
from inference_operator.observed.pod import Ended, PodView, sentence
from inference_operator.observed.scheduler import spelled_out
from inference_operator.pipeline import Inputs
from inference_operator.resources.names import ENGINE
from inference_operator.status.room import closest, look_for_room
from inference_operator.status.slow_start import look_for_end, too_slow


@dataclass(frozen=True, slots=True)
class Trouble:
    """A pod that does not run, and why."""

    pod: PodView
    reason: Reason
    message: str


def trouble_of(pod: PodView | None, inputs: Inputs) -> Trouble | None:
    """Why a pod does not run; None if nothing is known."""
    if pod is None or pod.problem is None:
        return None
    problem, said = pod.problem, f"Pod {pod.name} does not run"
    if problem.reason is Reason.UNSCHEDULABLE:
        return Trouble(pod, problem.reason, f"{said}: {spelled_out(problem.cause, closest(pod, inputs))}")
    if problem.ended is None:
        return Trouble(pod, problem.reason, with_cure(f"{said}: {problem.cause}", cure_of(problem.reason)))
    if found := _diagnosis(pod, problem.ended, inputs):
        return Trouble(pod, found.reason, f"{said}: {found.cause}.")
    if slow := too_slow(pod, problem.ended, inputs):
        return Trouble(pod, Reason.STARTUP_TIMEOUT, f"{said}: {slow}")
    return Trouble(pod, problem.reason, f"{said}: {problem.cause}{_own_words(problem.ended, inputs)}")


_KUBELETS_AND_QUOTAS = frozenset(
    {
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_CONFIG_ERROR,
        Reason.VOLUME_UNAVAILABLE,
        Reason.QUOTA_EXCEEDED,
    }
)
"""Reasons whose words are Kubernetes' own, which name a cause and no cure."""


def cure_of(reason: Reason) -> str:
    """What helps where Kubernetes itself says why a pod does not run; empty where its words suffice.

    Examples:
        >>> cure_of(Reason.CONTAINER_CONFIG_ERROR), cure_of(Reason.POD_REJECTED)
        ('Create what is missing.', '')
    """
    return EXPLANATIONS[reason].cure if reason in _KUBELETS_AND_QUOTAS else ""


def looks_for(trouble: Trouble | None, inputs: Inputs) -> Sequence[Look]:
    """The log of a container that ended, and who ended it, unless its message is enough; nodes that come close."""
    if trouble is None or trouble.pod.problem is None:
        return ()
    ended = trouble.pod.problem.ended
    if ended is None:
        room = look_for_room(trouble.pod, inputs)
        return (room,) if room else ()
    enough = chosen_engine().diagnose(ended.message) if trouble.pod.component == ENGINE else ended.message
    if enough:
        return ()
    log = ended.log if inputs.settings.read_logs else None
    return tuple(look for look in (log, look_for_end(trouble.pod, ended, inputs)) if look)


def _diagnosis(pod: PodView, ended: Ended, inputs: Inputs) -> Diagnosis | None:
    """What an engine's own words say: its termination message, or the log, of which that is the end."""
    if pod.component != ENGINE:
        return None
    log = inputs.seen.get(ended.log)
    return chosen_engine().diagnose(ended.message) or (
        chosen_engine().diagnose(log.text) if isinstance(log, Log) else None
    )


def _own_words(ended: Ended, inputs: Inputs) -> str:
    """What the container said itself, of which the end says most."""
    if ended.message:
        return f": {sentence(ended.message)}"
    if not inputs.settings.read_logs:
        return "; its log is not read, because the operator's setting `readLogs` is off"
    match inputs.seen.get(ended.log):
        case Log(text) if text.strip():
            return f": {sentence(text)}"
        case Unseen(why):
            return f"; its log cannot be read: {why}"
        case _:
            return ""
