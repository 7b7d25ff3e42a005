"""Why a pod does not run, as far as is known, and what has to be looked up to know more."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.reasons import Reason
from inference_operator.engines.chosen import chosen_engine
from inference_operator.engines.engine import Diagnosis
from inference_operator.observed.look import Log, Look, Unseen
from inference_operator.observed.pod import Ended, PodView, sentence
from inference_operator.observed.scheduler import spelled_out
from inference_operator.pipeline import Inputs
from inference_operator.resources.names import ENGINE


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
        return Trouble(pod, problem.reason, f"{said}: {spelled_out(problem.cause)}")
    if problem.ended is None:
        return Trouble(pod, problem.reason, f"{said}: {problem.cause}")
    if found := _diagnosis(pod, problem.ended, inputs):
        return Trouble(pod, found.reason, f"{said}: {found.cause}.")
    return Trouble(pod, problem.reason, f"{said}: {problem.cause}{_own_words(problem.ended, inputs)}")


def looks_for(trouble: Trouble | None, inputs: Inputs) -> Sequence[Look]:
    """The log of a container that ended, unless its message is enough."""
    ended = trouble.pod.problem.ended if trouble and trouble.pod.problem else None
    if trouble is None or ended is None or not inputs.settings.read_logs:
        return ()
    enough = chosen_engine().diagnose(ended.message) if trouble.pod.component == ENGINE else ended.message
    return () if enough else (ended.log,)


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
