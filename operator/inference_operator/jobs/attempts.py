"""The attempts of a task: which Jobs must exist, and the result or failure that they have reported. Each is a Job."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic

from inference_operator.api.explanations import EXPLANATIONS, with_cure
from inference_operator.api.reasons import Reason
from inference_operator.backoff import exponential_backoff
from inference_operator.diagnosis.pending_causes import PendingWait, creation_wait, volume_wait
from inference_operator.diagnosis.registry_errors import problem_cure
from inference_operator.diagnosis.unschedulable import scheduler_sentence
from inference_operator.jobs.result import Cause, Failure, Result
from inference_operator.manifest import Manifest
from inference_operator.models.config import NotUnderstood
from inference_operator.views.pod import PodProblem, PodView
from inference_operator.views.raw import annotations, timestamp
from inference_operator.views.untrusted_text import one_line

JOB_HASH_ANNOTATION = "inference-operator.dev/asked"
ATTEMPT_ANNOTATION = "inference-operator.dev/attempt"
"""Annotation with the number of the attempt, counted from 1."""

_NUMBER = re.compile("[0-9]{1,4}")
"""An attempt's number. A longer number is invalid."""


@dataclass(frozen=True, slots=True)
class Attempt:
    job: str
    job_hash: str
    number: int
    message: str = ""
    """Termination message of its pod; empty until the pod has terminated."""
    problem: PodProblem | None = None
    """Why its pod does not run; None if the pod runs, has terminated or does not exist."""
    finished: datetime | None = None
    """When the Job controller marked it complete or failed; None before that."""
    failure: str = ""
    """Why it failed: how its container ended, else the Job controller's message; empty if it has not failed."""
    has_output: bool = False
    """Whether its container has ended, so that there is a log."""
    created: datetime | None = None
    namespace: str = ""
    wait: PendingWait | None = None
    """Its wait for a pod, or its pod's wait for volumes; None if it waits for neither."""


def job_attempt(job: Manifest, pods: Iterable[PodView]) -> Attempt:
    """The attempt of a Job. Its pod may show the end of the attempt before the Job controller does."""
    meta, notes = job["metadata"], annotations(job)
    number = str(notes.get(ATTEMPT_ANNOTATION, ""))
    own = [pod for pod in pods if pod.name.startswith(f"{meta['name']}-")]
    end = next((c for c in (job.get("status") or {}).get("conditions") or () if _is_end(c)), None)
    failed = end is not None and end.get("type") == "Failed"
    condition_text = one_line(end.get("message")) or one_line(end.get("reason")) if end else ""
    ended = next((pod.problem for pod in own if pod.problem and _has_ended(pod, pod.problem)), None)
    return Attempt(
        job=meta["name"],
        job_hash=str(notes.get(JOB_HASH_ANNOTATION, "")),
        number=int(number) if _NUMBER.fullmatch(number) else 1,
        message=next((pod.termination_message for pod in own if pod.termination_message), ""),
        problem=next((pod.problem for pod in own if pod.problem and not _has_ended(pod, pod.problem)), None),
        finished=timestamp(end.get("lastTransitionTime")) if end else None,
        failure=((ended.cause if ended else condition_text) or "it has failed") if failed else "",
        has_output=ended is not None and ended.terminated is not None,
        created=timestamp(meta.get("creationTimestamp")),
        namespace=str(meta.get("namespace", "")),
        wait=_wait(job, own),
    )


def _wait(job: Manifest, own: Sequence[PodView]) -> PendingWait | None:
    if not own:
        return creation_wait(job)
    namespace = str(job["metadata"].get("namespace", ""))
    return next((wait for pod in own if (wait := volume_wait(pod, namespace=namespace))), None)


def _has_ended(pod: PodView, problem: PodProblem) -> bool:
    """Whether the problem is how the pod of a Job has ended: it is not started again.

    The phase follows a moment after its container, or never while another container, such as a proxy, runs.
    """
    return pod.failed or problem.reason in (Reason.CRASH_LOOP, Reason.OUT_OF_MEMORY)


def _is_end(condition: Manifest) -> bool:
    """Whether a condition marks a Job as complete or failed (Kubernetes 1.36, batch/v1 JobConditionType)."""
    return condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"


FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=30), timedelta(minutes=10)
"""Backoff after a failed attempt; it doubles with each, since most failures need a user to act."""


@dataclass(frozen=True, slots=True)
class JobWait:
    reason: Reason
    message: str
    """How far the Job is; cause and cure, if its pod does not run."""
    since: datetime | None = None
    """Since when its pod does not run, from the begin of the attempt; None if it runs."""


@dataclass(frozen=True, slots=True)
class AttemptsProgress(Generic[Result]):
    """Progress of the attempts of a task, with the time of its next change without an event."""

    jobs: tuple[int, ...] = ()
    """Numbers of the attempts whose Jobs must exist."""
    result: Result | None = None
    failure: Failure | None = None
    """Failure of the last finished attempt."""
    waiting: JobWait | None = None
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
    return exponential_backoff(number, first=FIRST_WAIT, longest=LONGEST_WAIT)


def _waiting(attempt: Attempt) -> JobWait | None:
    problem = attempt.problem
    if problem is None:
        return None
    if problem.reason is Reason.UNSCHEDULABLE:
        message = f"{scheduler_sentence(problem.cause).rstrip('.')}."
    else:
        message = with_cure(problem.cause, problem_cure(problem) or EXPLANATIONS[problem.reason].cure)
    return JobWait(problem.reason, message, attempt.created)


def _failure(
    finished: Attempt, subject: str, parse: Callable[[str], Result | Failure | None], following: Attempt | None = None
) -> Failure:
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
    look = f"kubectl {'logs' if finished.has_output else 'describe'} -n {finished.namespace} job/{finished.job}"
    return Failure(Cause.TIMED_OUT, NotUnderstood(subject, problem, f"`{look}` shows more."))
