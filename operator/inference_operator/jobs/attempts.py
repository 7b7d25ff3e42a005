"""The attempts of a task: which Jobs must exist, and the result or failure that they have reported. Each is a Job."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic

from inference_operator.api.explanations import EXPLANATIONS, with_cure
from inference_operator.api.reasons import Reason
from inference_operator.backoff import exponential_backoff
from inference_operator.diagnosis.scheduler_message import scheduler_sentence
from inference_operator.jobs.attempt import Attempt
from inference_operator.jobs.result import Cause, Failure, Result
from inference_operator.models.config import NotUnderstood
from inference_operator.views.pod import PodProblem, one_line

FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=30), timedelta(minutes=10)
"""Backoff after a failed attempt; it doubles with each, since most failures need a user to act."""


@dataclass(frozen=True, slots=True)
class AttemptsProgress(Generic[Result]):
    """How far the attempts of a task are, and when that changes next without an event."""

    jobs: tuple[int, ...] = ()
    """Numbers of the attempts whose Jobs must exist."""
    result: Result | None = None
    """The result of an attempt; None until one has a result."""
    failure: Failure | None = None
    """Why the last finished attempt failed."""
    waiting: str = ""
    """Why the current attempt's pod does not run, in a sentence; empty if it runs."""
    again: datetime | None = None
    """When the next attempt is due."""


def attempts_progress(
    attempts: Sequence[Attempt],
    now: datetime,
    *,
    wanted: bool,
    parse: Callable[[str], Result | Failure | None],
) -> AttemptsProgress[Result]:
    """How far the attempts are.

    A failed attempt's Job is kept until the next attempt finishes, so that its message stays readable.

    Args:
        attempts: the existing attempts of one task.
        now: the current time.
        wanted: whether the result is needed. If not, no further attempt starts; a result that exists is returned.
        parse: reads the termination message of an attempt; None if it is invalid.

    Examples:
        >>> from inference_operator.jobs.download_result import parsed_download
        >>> start = datetime(2026, 1, 2)
        >>> attempts_progress([], start, wanted=True, parse=parsed_download).jobs
        (1,)
        >>> failed = Attempt("a", "b", 1, finished=start, failure="Job was active longer than specified deadline")
        >>> attempts_progress([failed], start, wanted=True, parse=parsed_download).again - start
        datetime.timedelta(seconds=30)
        >>> attempts_progress([failed], start + FIRST_WAIT, wanted=True, parse=parsed_download).jobs
        (1, 2)
    """
    latest_first = sorted(attempts, key=lambda attempt: attempt.number, reverse=True)
    for attempt in latest_first:
        result = parse(attempt.message)
        if result is not None and not isinstance(result, Failure):
            return AttemptsProgress((attempt.number,), result)
    finished = next((attempt for attempt in latest_first if attempt.finished is not None), None)
    failure = _failure(finished, parse) if finished else None
    if not wanted:
        return AttemptsProgress(failure=failure)
    running = next((attempt for attempt in latest_first if attempt.finished is None), None)
    if finished is None or finished.finished is None:
        return (
            AttemptsProgress((running.number,), waiting=_waiting(running.problem))
            if running
            else AttemptsProgress((1,))
        )
    if running and running.number > finished.number:
        return AttemptsProgress((finished.number, running.number), failure=_failure(finished, parse, running.problem))
    again = finished.finished + wait_after(finished.number)
    following = (finished.number + 1,) if now >= again else ()
    return AttemptsProgress((finished.number, *following), failure=failure, again=None if following else again)


def wait_after(number: int) -> timedelta:
    """The backoff after the attempt of this number.

    Examples:
        >>> [int(wait_after(number).total_seconds()) for number in (1, 2, 3, 9999)]
        [30, 60, 120, 600]
    """
    first, longest = FIRST_WAIT.total_seconds(), LONGEST_WAIT.total_seconds()
    return timedelta(seconds=exponential_backoff(number, first=first, longest=longest))


def _waiting(problem: PodProblem | None) -> str:
    """Cause and cure of a pod that does not run."""
    if problem is None:
        return ""
    if problem.reason is Reason.UNSCHEDULABLE:
        return f"{scheduler_sentence(problem.cause).rstrip('.')}."
    return with_cure(problem.cause, problem.cure or EXPLANATIONS[problem.reason].cure)


def _failure(
    finished: Attempt, parse: Callable[[str], Result | Failure | None], following: PodProblem | None = None
) -> Failure:
    """The failure that the finished attempt reported; else why the next one does not run, or how this one ended."""
    reported = parse(finished.message)
    if isinstance(reported, Failure):
        return reported
    why = finished.failure or one_line(finished.message) or "its pod wrote no message"
    problem = f"Job {finished.job} ended without a result: {why.rstrip('.')}."
    if following:
        problem = f"the pod of the next attempt does not run: {_waiting(following)}"
    elif finished.problem:
        problem = f"the pod of Job {finished.job} did not run in time: {_waiting(finished.problem)}"
    cure = "Look at the Job's Events in this namespace."
    return Failure(Cause.TIMED_OUT, NotUnderstood("model", f"could not be read: {problem}", cure))
