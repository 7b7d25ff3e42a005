"""State of a task: its attempts, its record, and the objects that it needs.

1. A recorded result counts, and the task needs no Job. A verification has no record but its Job.
2. Otherwise each attempt is a Job, and attempts belong together by the hash of the Job's content.
3. The result of a Job is recorded before the Job is deleted.
4. A Job that runs or has ended keeps the placement with which it was created.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Generic

from inference_operator.api.refusal import Refusal
from inference_operator.diagnosis.pending_causes import problem_from_events
from inference_operator.jobs.attempts import Attempt, AttemptsProgress, attempts_progress, job_attempt
from inference_operator.jobs.placement import placement_of
from inference_operator.jobs.result import Result
from inference_operator.jobs.task import JobTask
from inference_operator.manifest import JOB, Manifest, Ref
from inference_operator.objects.names import component_of
from inference_operator.views.lookups import Lookup, LookupResults, ObjectEvents
from inference_operator.views.pod import PodView

JOB_CLEANUP_DELAY = timedelta(seconds=1)
"""When to delete a Job whose result has been recorded: the operator's own write brings no event."""


@dataclass(frozen=True, slots=True)
class ObservedJobs:
    live: Mapping[Ref, Manifest]
    pods: Sequence[PodView]
    now: datetime
    results: LookupResults


@dataclass(frozen=True, slots=True)
class JobState(Generic[Result]):
    progress: AttemptsProgress[Result] = field(default_factory=AttemptsProgress)
    desired: Mapping[Ref, Manifest] = field(default_factory=dict)
    """The Jobs of its attempts with the program that they install, and the record of its result."""
    lookups: tuple[Lookup, ...] = ()
    """Lookups that tell more about it, such as Events that show why a Job makes no progress."""
    due: tuple[datetime, ...] = ()
    """Times from which more lookups are necessary."""
    refusal: Refusal | None = None
    """Why it cannot be done, or why the last attempt failed; None if it did not."""
    message: str = ""
    """Progress in one or two sentences; empty once it is done."""

    @property
    def complete(self) -> bool:
        return self.progress.result is not None

    @property
    def running(self) -> bool:
        """Whether the first attempt runs, or is about to: there is neither a result nor a failure yet."""
        return bool(self.progress.jobs) and not self.complete and self.progress.failure is None

    @property
    def jobs(self) -> tuple[str, ...]:
        return tuple(ref.name for ref in self.desired if ref.kind == JOB)

    def without_new_jobs(self, live: Mapping[Ref, Manifest]) -> "JobState[Result]":
        """The same, but no Job starts that is not live: it is not known yet where one may run."""
        desired = {ref: manifest for ref, manifest in self.desired.items() if ref.kind != JOB or ref in live}
        return replace(self, desired=desired)

    def recheck_at(self, now: datetime) -> datetime | None:
        """Time of the next change without an event: the next attempt, a lookup, or a Job that is no longer needed."""
        if self.complete and self.progress.jobs:
            return now + JOB_CLEANUP_DELAY
        again = (self.progress.again,) if self.progress.again else ()
        return min((*again, *self.due), default=None)


def job_state(
    task: JobTask[Result], observed: ObservedJobs, *, wanted: bool = True, repeated: bool = False
) -> JobState[Result]:
    stored = task.record.stored(observed.live) if task.record else None
    if task.record and stored is not None and not repeated:
        return JobState(AttemptsProgress(result=stored), {task.record.ref: task.record.manifest(stored)})
    attempts = _attempts(observed, task.component, task.job_hash)
    current = [attempt for job, attempt in attempts if "deletionTimestamp" not in job["metadata"]]
    progress = attempts_progress(current, observed.now, wanted=wanted, subject=task.subject, parse=task.parse)
    kept = _kept_placements(task, attempts, observed)
    desired = [task.job(number, kept.get(number, task.placement)) for number in progress.jobs]
    result = progress.result or stored
    records = [task.record.manifest(result)] if task.record and result is not None else []
    waits = [attempt.wait for attempt in current if attempt.wait and attempt.number in progress.jobs]
    state = JobState(
        progress,
        {**(task.program if desired else {}), **{Ref.of(manifest): manifest for manifest in (*records, *desired)}},
        lookups=tuple(wait.lookup for wait in waits if wait.due <= observed.now),
        due=tuple(wait.due for wait in waits if wait.due > observed.now),
        refusal=task.refuse(progress.failure) if progress.failure else None,
    )
    return state if state.complete or not desired else replace(state, message=_message(task, state))


def without_jobs(live: Mapping[Ref, Manifest], component: str) -> dict[Ref, Manifest]:
    """All objects but the Jobs of this component. The records of their results stay."""
    return {ref: manifest for ref, manifest in live.items() if not is_job_of(manifest, component)}


def is_job_of(manifest: Manifest, component: str) -> bool:
    return manifest.get("kind") == JOB.name and component_of(manifest) == component


def _attempts(observed: ObservedJobs, component: str, job_hash: str) -> list[tuple[Manifest, Attempt]]:
    pods = [pod for pod in observed.pods if pod.component == component]
    attempts = [(job, job_attempt(job, pods)) for job in observed.live.values() if is_job_of(job, component)]
    return [(job, _with_events(attempt, observed.results)) for job, attempt in attempts if attempt.job_hash == job_hash]


def _with_events(attempt: Attempt, results: LookupResults) -> Attempt:
    events = results.get(attempt.wait.lookup) if attempt.wait else None
    if not isinstance(events, ObjectEvents):
        return attempt
    return replace(attempt, problem=attempt.problem or problem_from_events(events))


def _kept_placements(
    task: JobTask[Result], attempts: Sequence[tuple[Manifest, Attempt]], observed: ObservedJobs
) -> dict[int, Manifest | None]:
    """The placements of Jobs that run or have ended, by the number of the attempt; None for the requested fields."""
    return {
        attempt.number: None
        if attempt.job == task.name(attempt.number, None)
        else placement_of(job["spec"]["template"]["spec"])
        for job, attempt in reversed(attempts)
        if attempt.finished or _has_run(attempt, observed)
    }


def _has_run(attempt: Attempt, observed: ObservedJobs) -> bool:
    own = (pod for pod in observed.pods if pod.name.startswith(f"{attempt.job}-"))
    return any(pod.ready or pod.failed or pod.termination_message for pod in own)


def _message(task: JobTask[Result], state: JobState[Result]) -> str:
    waiting = state.progress.waiting
    why = f" Its pod does not run: {waiting.message}" if waiting else ""
    return f"Job {state.jobs[-1]} {task.purpose}.{why}"
