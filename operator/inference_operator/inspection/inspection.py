"""State of a model's inspection: a Job while the model is unknown, then a ConfigMap with the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.engines.model_access import HubAccess
from inference_operator.inspection.attempts import AttemptsProgress
from inference_operator.inspection.config_map import model_config_map, model_config_ref, stored_model
from inference_operator.inspection.job import inspection_job
from inference_operator.inspection.job_attempt import JOB_HASH_ANNOTATION
from inference_operator.inspection.job_progress import ObservedJobs, is_job, job_progress, next_change
from inference_operator.inspection.result import INSPECTOR_VERSION, OLDER_VERSIONS, parsed_result
from inference_operator.manifest import JOB, Manifest, Owner, Ref
from inference_operator.models.entry import Entry
from inference_operator.models.source import ModelSource
from inference_operator.objects.names import INSPECTION
from inference_operator.settings import Settings
from inference_operator.views.lookups import Lookup, LookupResults
from inference_operator.views.pod import PodView


@dataclass(frozen=True, slots=True)
class InspectionRequest:
    """A model, and how to read its files."""

    spec: EffectiveSpec
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
        has_job = any(ref.kind == JOB for ref in self.desired)
        return next_change(self.progress, self.due, now, has_job=has_job)


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
    observed = ObservedJobs(live, pods, now, results)
    found = job_progress(observed, INSPECTION, job_hash, wanted=wanted, parsed=parsed_result)
    progress = found.attempts
    jobs = [_job(request, number) for number in progress.jobs]
    result = [model_config_map(ref, progress.entry, owner=request.owner)] if progress.entry else []
    return InspectionState(
        progress,
        {Ref.of(child): child for child in (*result, *jobs)},
        lookups=found.lookups,
        due=found.due,
    )


def without_inspection_jobs(live: Mapping[Ref, Manifest]) -> dict[Ref, Manifest]:
    """All children but the Jobs of inspections. The ConfigMaps with results stay."""
    return {ref: child for ref, child in live.items() if not is_job(child, INSPECTION)}


def _job(request: InspectionRequest, number: int) -> Manifest:
    return inspection_job(
        request.spec,
        request.source,
        request.access,
        attempt=number,
        owner=request.owner,
        settings=request.settings,
    )
