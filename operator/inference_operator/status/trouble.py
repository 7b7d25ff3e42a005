"""Why a pod does not run, as far as is known, and what has to be looked up to know more."""

from collections.abc import Sequence

from inference_operator.observed.look import Log, Look, Unseen
from inference_operator.observed.pod import PodProblem, PodView, sentence
from inference_operator.pipeline import Inputs


def trouble_of(pod: PodView | None, inputs: Inputs) -> str:
    """Why a pod does not run, in a sentence; empty if nothing is known."""
    if pod is None or pod.problem is None:
        return ""
    return f"Pod {pod.name} does not run: {pod.problem.cause}{_own_words(pod.problem, inputs)}"


def looks_for(pod: PodView | None, inputs: Inputs) -> Sequence[Look]:
    """The log of a container that ended and left no message."""
    ended = pod.problem.ended if pod and pod.problem else None
    return () if ended is None or ended.message or not inputs.settings.read_logs else (ended.log,)


def _own_words(problem: PodProblem, inputs: Inputs) -> str:
    """What the container said itself, of which the end says most."""
    if problem.ended is None:
        return ""
    if problem.ended.message:
        return f": {sentence(problem.ended.message)}"
    if not inputs.settings.read_logs:
        return "; its log is not read, because the operator's setting `readLogs` is off"
    match inputs.seen.get(problem.ended.log):
        case Log(text) if text.strip():
            return f": {sentence(text)}"
        case Unseen(why):
            return f"; its log cannot be read: {why}"
        case _:
            return ""
