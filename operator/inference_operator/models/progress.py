"""How far the inspection of a model has come, from the attempts at it that there are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from inference_operator.api.explanations import EXPLANATIONS, with_cure
from inference_operator.api.reasons import Reason
from inference_operator.models.entry import Entry
from inference_operator.models.inspected import Cause, Failure, inspection
from inference_operator.models.not_understood import NotUnderstood
from inference_operator.observed.attempt import Attempt
from inference_operator.observed.pod import PodProblem, sentence
from inference_operator.observed.scheduler import spelled_out

FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=30), timedelta(minutes=10)
"""How long a failed attempt is waited after: twice as long after each, since most failures need somebody to act."""

MOST_DOUBLINGS = 10
"""More of them would only make a large number of what is longer than the longest wait."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known, what goes on, and when that changes by itself."""

    jobs: tuple[int, ...] = ()
    """The attempts whose Jobs are wanted."""
    found: Entry | None = None
    failure: Failure | None = None
    """Why the last attempt that is over found nothing."""
    waiting: str = ""
    """Why the attempt that goes on does not run, in a sentence; empty if it does."""
    again: datetime | None = None
    """When the next attempt is due."""


def progress(attempts: Sequence[Attempt], now: datetime, *, wanted: bool) -> Progress:
    """How far attempts at one and the same thing have come.

    A failed attempt is kept until the next one is over, so that what it said stays known.

    Args:
        attempts: those that there are.
        now: the time.
        wanted: whether anybody waits for it; else there is no further attempt, and what was found counts all the same.

    Examples:
        >>> start = datetime(2026, 1, 2)
        >>> progress([], start, wanted=True).jobs
        (1,)
        >>> failed = Attempt("a", "b", 1, finished=start, failure="Job was active longer than specified deadline")
        >>> progress([failed], start, wanted=True).again - start
        datetime.timedelta(seconds=30)
        >>> progress([failed], start + FIRST_WAIT, wanted=True).jobs
        (1, 2)
    """
    known = sorted(attempts, key=lambda one: one.number)
    for one in reversed(known):
        if isinstance(found := inspection(one.words), Entry):
            return Progress((one.number,), found)
    over = next((one for one in reversed(known) if one.finished is not None), None)
    failure = _failure(over) if over else None
    if not wanted:
        return Progress(failure=failure)
    running = next((one for one in reversed(known) if one.finished is None), None)
    if over is None or over.finished is None:
        return Progress((running.number,), waiting=_waiting(running.problem)) if running else Progress((1,))
    if running and running.number > over.number:
        return Progress((over.number, running.number), failure=_failure(over, running.problem))
    again = over.finished + wait_after(over.number)
    following = (over.number + 1,) if now >= again else ()
    return Progress((over.number, *following), failure=failure, again=None if following else again)


def wait_after(number: int) -> timedelta:
    """How long the attempt of this number is waited after.

    Examples:
        >>> [int(wait_after(number).total_seconds()) for number in (1, 2, 3, 9999)]
        [30, 60, 120, 600]
    """
    doublings = min(number - 1, MOST_DOUBLINGS)
    return min(LONGEST_WAIT, FIRST_WAIT * (1 << doublings))


def _waiting(problem: PodProblem | None) -> str:
    """Cause and cure; the scheduler's words are spelled out with theirs."""
    if problem is None:
        return ""
    if problem.reason is Reason.UNSCHEDULABLE:
        return f"{spelled_out(problem.cause).rstrip('.')}."
    return with_cure(problem.cause, problem.cure or EXPLANATIONS[problem.reason].cure)


def _failure(over: Attempt, following: PodProblem | None = None) -> Failure:
    """What the last attempt said of itself; else why the next one does not run, or how the last one ended."""
    said = inspection(over.words)
    if isinstance(said, Failure):
        return said
    why = over.failure or sentence(over.words) or "it said nothing"
    ended = f"Job {over.job} ended without an answer: {why.rstrip('.')}."
    if following:
        ended = f"the next pod for it does not run: {_waiting(following)}"
    elif over.problem:
        ended = f"the pod of Job {over.job} did not run in time: {_waiting(over.problem)}"
    cure = "Look at the Job's Events in this namespace."
    return Failure(Cause.TIMED_OUT, NotUnderstood("model", f"could not be read: {ended}", cure))
