"""How far the Jobs of one task are, such as an inspection or a download; each Job is one attempt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Generic

from inference_operator.diagnosis.pending_causes import problem_from_events
from inference_operator.inspection.attempts import AttemptsProgress, Result, attempts_progress
from inference_operator.inspection.job_attempt import Attempt, job_attempt
from inference_operator.inspection.result import Failure
from inference_operator.manifest import JOB, Manifest, Ref
from inference_operator.objects.names import COMPONENT_LABEL
from inference_operator.views.lookups import Lookup, LookupResults, ObjectEvents
from inference_operator.views.pod import PodView
from inference_operator.views.raw import mapping

TIDYING = timedelta(seconds=1)
"""When to delete a Job whose result has been stored: the operator's own write brings no event."""


@dataclass(frozen=True, slots=True)
class ObservedJobs:
    """What is known of a resource's Jobs now."""

    live: Mapping[Ref, Manifest]
    """The live children."""
    pods: Sequence[PodView]
    now: datetime
    results: LookupResults


@dataclass(frozen=True, slots=True)
class JobProgress(Generic[Result]):
    """The attempts of one task, and what tells more about them."""

    attempts: AttemptsProgress[Result] = field(default_factory=AttemptsProgress[Result])
    lookups: tuple[Lookup, ...] = ()
    """Events that show why a Job makes no progress."""
    due: tuple[datetime, ...] = ()
    """When more lookups become necessary."""


def job_progress(
    observed: ObservedJobs,
    component: str,
    job_hash: str,
    *,
    wanted: bool,
    parsed: Callable[[str], Result | Failure | None],
    of_success: Callable[[Attempt], Result | None] = lambda _: None,
) -> JobProgress[Result]:
    """The progress of the Jobs with this content.

    Args:
        observed: what is known now.
        component: the component label of the Jobs and their pods.
        job_hash: hash of the content; Jobs with another content do not count.
        wanted: whether the result is needed. If not, no further attempt starts.
        parsed: reads the termination message of an attempt; None if it is invalid.
        of_success: the result of an attempt that ended with exit code 0 and an invalid message; None if it has none.
    """
    own_pods = [pod for pod in observed.pods if pod.component == component]
    found = [one for one in observed.live.values() if is_job(one, component)]
    jobs = [job for job in found if "deletionTimestamp" not in job["metadata"]]
    attempts = [job_attempt(job, own_pods) for job in jobs]
    current = [with_events(one, observed.results) for one in attempts if one.job_hash == job_hash]
    progress = attempts_progress(current, observed.now, wanted=wanted, parsed=parsed, of_success=of_success)
    waits = [one.wait for one in current if one.wait and one.number in progress.jobs]
    return JobProgress(
        progress,
        lookups=tuple(wait.lookup for wait in waits if wait.due <= observed.now),
        due=tuple(wait.due for wait in waits if wait.due > observed.now),
    )


def next_change(
    progress: AttemptsProgress[Result], due: Sequence[datetime], now: datetime, *, has_job: bool
) -> datetime | None:
    """When the state changes without an event: the next attempt, a lookup, or a Job that is no longer needed."""
    if progress.entry is not None and has_job:
        return now + TIDYING
    again = (progress.again,) if progress.again else ()
    return min((*again, *due), default=None)


def is_job(manifest: Manifest, component: str) -> bool:
    """Whether an object is a Job of this component."""
    labels = mapping(mapping(manifest, "metadata"), "labels")
    return manifest.get("kind") == JOB.name and labels.get(COMPONENT_LABEL) == component


def with_events(attempt: Attempt, results: LookupResults) -> Attempt:
    """The attempt, with the cause that Events show if it makes no progress."""
    events = results.get(attempt.wait.lookup) if attempt.wait else None
    if not isinstance(events, ObjectEvents):
        return attempt
    return replace(attempt, problem=attempt.problem or problem_from_events(events))
