"""State of a model's inspection: a Job while the model is unknown, then a ConfigMap with the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from inference_operator.api.spec import Spec
from inference_operator.diagnosis.pending_causes import problem_from_events
from inference_operator.engines.base import HubAccess
from inference_operator.inspection.attempts import AttemptsProgress, attempts_progress
from inference_operator.inspection.config_map import model_config_map, model_config_ref, stored_model
from inference_operator.inspection.job import inspection_job
from inference_operator.inspection.job_attempt import JOB_HASH_ANNOTATION, Attempt, job_attempt
from inference_operator.inspection.result import INSPECTOR_VERSION, OLDER_VERSIONS, parsed_result
from inference_operator.manifest import JOB, Manifest, Owner, Ref
from inference_operator.models.entry import Entry
from inference_operator.models.source import ModelSource
from inference_operator.objects.names import COMPONENT_LABEL, INSPECTION
from inference_operator.settings import Settings
from inference_operator.views.lookups import Lookup, LookupResults, ObjectEvents
from inference_operator.views.pod import PodView
from inference_operator.views.raw import mapping

TIDYING = timedelta(seconds=1)
"""When to delete a Job whose result has been stored: the operator's own write brings no event."""


@dataclass(frozen=True, slots=True)
class InspectionRequest:
    """A model, and how to read its files."""

    spec: Spec
    source: ModelSource
    access: HubAccess
    owner: Owner
    settings: Settings


@dataclass(frozen=True, slots=True)
class InspectionState:
    """How far an inspection is, and the objects that it needs."""

    progress: AttemptsProgress[Entry] = field(default_factory=AttemptsProgress)
    desired: Mapping[Ref, Manifest] = field(default_factory=dict)
    lookups: tuple[Lookup, ...] = ()
    """Events that show why a Job makes no progress."""
    due: tuple[datetime, ...] = ()
    """When more lookups become necessary."""

    @property
    def running(self) -> bool:
        """Whether the first attempt runs, or is about to: there is neither a result nor a failure yet."""
        return bool(self.progress.jobs) and self.progress.entry is None and self.progress.failure is None

    @property
    def message(self) -> str:
        """Progress in one or two sentences."""
        job = next((ref.name for ref in self.desired if ref.kind == JOB), "")
        waiting = self.progress.waiting
        why = f" Its pod does not run: {waiting}" if waiting else ""
        return f"Job {job} reads the model's files to determine its size.{why}"

    def recheck_at(self, now: datetime) -> datetime | None:
        """When the state changes without an event: the next attempt, or a Job that is no longer needed."""
        tidying = self.progress.entry is not None and any(ref.kind == JOB for ref in self.desired)
        again = (self.progress.again,) if self.progress.again else ()
        return now + TIDYING if tidying else min((*again, *self.due), default=None)


def inspection_state(
    request: InspectionRequest,
    live: Mapping[Ref, Manifest],
    pods: Sequence[PodView],
    now: datetime,
    results: LookupResults,
    *,
    wanted: bool,
    decided: bool = False,
) -> InspectionState:
    """How far the inspection is. The result of a Job is stored before the Job is deleted.

    Args:
        request: the model.
        live: the live children.
        pods: their pods.
        now: the time.
        results: results of lookups.
        wanted: whether the result is needed. If not, no further attempt is made.
        decided: whether all sizes are pinned. Then the result of an older inspector is sufficient.
    """
    model, revision, owner = request.spec.model, request.access.revision, request.owner
    for version in (INSPECTOR_VERSION, *(OLDER_VERSIONS if decided else ())):
        older = model_config_ref(model, revision, owner=owner, version=version)
        if stored := stored_model(live.get(older)):
            kept = {older: model_config_map(older, stored, owner=owner)}
            return InspectionState(AttemptsProgress(entry=stored), kept)
    ref = model_config_ref(model, revision, owner=owner)
    job_hash = _job(request, 1)["metadata"]["annotations"][JOB_HASH_ANNOTATION]
    own_pods = [pod for pod in pods if pod.component == INSPECTION]
    live_jobs = [job for job in live.values() if is_inspection_job(job) and "deletionTimestamp" not in job["metadata"]]
    attempts = [job_attempt(job, own_pods) for job in live_jobs]
    current = [with_events(attempt, results) for attempt in attempts if attempt.job_hash == job_hash]
    progress = attempts_progress(current, now, wanted=wanted, parsed=parsed_result)
    jobs = [_job(request, number) for number in progress.jobs]
    waits = [attempt.wait for attempt in current if attempt.wait and attempt.number in progress.jobs]
    result = [model_config_map(ref, progress.entry, owner=request.owner)] if progress.entry else []
    return InspectionState(
        progress,
        {Ref.of(child): child for child in (*result, *jobs)},
        lookups=tuple(wait.lookup for wait in waits if wait.due <= now),
        due=tuple(wait.due for wait in waits if wait.due > now),
    )


def is_inspection_job(manifest: Manifest) -> bool:
    """Whether an object is a Job of an inspection; other Jobs have another component label."""
    labels = mapping(mapping(manifest, "metadata"), "labels")
    return manifest.get("kind") == JOB.name and labels.get(COMPONENT_LABEL) == INSPECTION


def without_inspection_jobs(live: Mapping[Ref, Manifest]) -> dict[Ref, Manifest]:
    """All children but the Jobs of inspections. The ConfigMaps with results stay."""
    return {ref: child for ref, child in live.items() if not is_inspection_job(child)}


def with_events(attempt: Attempt, results: LookupResults) -> Attempt:
    """The attempt, with the cause that Events show if it makes no progress."""
    events = results.get(attempt.wait.lookup) if attempt.wait else None
    if not isinstance(events, ObjectEvents):
        return attempt
    return replace(attempt, problem=attempt.problem or problem_from_events(events))


def _job(request: InspectionRequest, number: int) -> Manifest:
    return inspection_job(
        request.spec,
        request.source,
        request.access,
        attempt=number,
        owner=request.owner,
        settings=request.settings,
    )
