"""The attempts of a task: which Jobs must exist, and the result or failure that they have reported. Each is a Job."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic

from inference_operator.api.explanations import EXPLANATIONS, with_cure
from inference_operator.api.reasons import Reason
from inference_operator.backoff import exponential_backoff
from inference_operator.diagnosis.registry_errors import problem_cure
from inference_operator.diagnosis.scheduler_message import scheduler_sentence
from inference_operator.jobs.attempt import Attempt
from inference_operator.jobs.result import Cause, Failure, Result
from inference_operator.models.config import NotUnderstood
from inference_operator.views.untrusted_text import one_line

FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=30), timedelta(minutes=10)
"""Backoff after a failed attempt; it doubles with each, since most failures need a user to act."""


@dataclass(frozen=True, slots=True)
class PodWait:
    reason: Reason
    message: str
    """Cause and cure."""
    since: datetime | None
    """Begin of the attempt."""


@dataclass(frozen=True, slots=True)
class AttemptsProgress(Generic[Result]):
    """Progress of the attempts of a task, with the time of its next change without an event."""

    jobs: tuple[int, ...] = ()
    """Numbers of the attempts whose Jobs must exist."""
    result: Result | None = None
    failure: Failure | None = None
    """Failure of the last finished attempt."""
    waiting: PodWait | None = None
    """Why the current attempt's pod does not run; None if it runs."""
    again: datetime | None = None


def attempts_progress(
    attempts: Sequence[Attempt],
    now: datetime,
    *,
    wanted: bool,
    subject: str,
    parse: Callable[[str], Result | Failure | None],
) -> AttemptsProgress[Result]:
    """Progress of the attempts.

    A failed attempt's Job is kept until the next attempt finishes, so that its message stays readable; for ever, if no
    further attempt is needed.

    Args:
        wanted: whether the result is needed. If not, no further attempt starts; a result that exists is returned.
        subject: what the task is about, which begins the failure of an attempt without a result.
    """
    latest_first = sorted(attempts, key=lambda attempt: attempt.number, reverse=True)
    for attempt in latest_first:
        result = parse(attempt.message)
        if result is not None and not isinstance(result, Failure):
            return AttemptsProgress((attempt.number,), result)
    finished = next((attempt for attempt in latest_first if attempt.finished is not None), None)
    failure = _failure(finished, subject, parse) if finished else None
    if not wanted:
        return AttemptsProgress((finished.number,) if finished else (), failure=failure)
    running = next((attempt for attempt in latest_first if attempt.finished is None), None)
    if finished is None or finished.finished is None:
        return AttemptsProgress((running.number,), waiting=_waiting(running)) if running else AttemptsProgress((1,))
    if running and running.number > finished.number:
        failure = _failure(finished, subject, parse, running)
        return AttemptsProgress((finished.number, running.number), failure=failure)
    again = finished.finished + wait_after(finished.number)
    following = (finished.number + 1,) if now >= again else ()
    return AttemptsProgress((finished.number, *following), failure=failure, again=None if following else again)


def wait_after(number: int) -> timedelta:
    first, longest = FIRST_WAIT.total_seconds(), LONGEST_WAIT.total_seconds()
    return timedelta(seconds=exponential_backoff(number, first=first, longest=longest))


def _waiting(attempt: Attempt) -> PodWait | None:
    problem = attempt.problem
    if problem is None:
        return None
    if problem.reason is Reason.UNSCHEDULABLE:
        message = f"{scheduler_sentence(problem.cause).rstrip('.')}."
    else:
        message = with_cure(problem.cause, problem_cure(problem) or EXPLANATIONS[problem.reason].cure)
    return PodWait(problem.reason, message, attempt.created)


def _failure(
    finished: Attempt,
    subject: str,
    parse: Callable[[str], Result | Failure | None],
    following: Attempt | None = None,
) -> Failure:
    """The failure that the finished attempt reported; else why the next one does not run, or how this one ended."""
    reported = parse(finished.message)
    if isinstance(reported, Failure):
        return reported
    if following and (wait := _waiting(following)):
        problem = f"the pod of the next attempt does not run: {wait.message}"
        return Failure(Cause.TIMED_OUT, NotUnderstood(subject, problem, ""), wait.reason)
    if wait := _waiting(finished):
        problem = f"the pod of Job {finished.job} did not run in time: {wait.message}"
        return Failure(Cause.TIMED_OUT, NotUnderstood(subject, problem, ""), wait.reason)
    why = finished.failure or one_line(finished.message) or "its pod wrote no message"
    problem = f"Job {finished.job} ended without a result: {why.rstrip('.')}."
    return Failure(Cause.TIMED_OUT, NotUnderstood(subject, problem, f"`{_look(finished)}` tells more."))


def _look(attempt: Attempt) -> str:
    """The command that shows most about an attempt that has ended."""
    verb = "logs" if attempt.has_output else "describe"
    return f"kubectl {verb} -n {attempt.namespace} job/{attempt.job}"
