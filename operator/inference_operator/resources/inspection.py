"""What there has to be so that a model becomes known: a Job while it is not, a ConfigMap from then on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from inference_operator.api.spec import Spec
from inference_operator.engines.engine import HubAccess
from inference_operator.manifest import JOB, Manifest, Owner, Ref
from inference_operator.models.progress import Progress, progress
from inference_operator.models.source import ModelSource
from inference_operator.observed.attempt import ASKED_ANNOTATION, Attempt, attempt
from inference_operator.observed.look import Look, Seen, Told
from inference_operator.observed.pod import PodView
from inference_operator.observed.waits import why
from inference_operator.resources.inspection_job import inspection_job
from inference_operator.resources.model_config_map import kept_model, model_config_map, model_config_ref
from inference_operator.resources.names import INSPECTION
from inference_operator.settings import Settings

TIDYING = timedelta(seconds=1)
"""When a Job goes whose answer is kept: our own write brings no event."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model and how to get at its files."""

    spec: Spec
    source: ModelSource
    access: HubAccess
    owner: Owner
    settings: Settings


@dataclass(frozen=True, slots=True)
class Inspecting:
    """How far it has come, and the objects that it needs."""

    progress: Progress = field(default_factory=Progress)
    desired: Mapping[Ref, Manifest] = field(default_factory=dict)
    looks: tuple[Look, ...] = ()
    """What has to be looked up to know why a Job does not get on."""
    due: tuple[datetime, ...] = ()
    """When more has to be, if nothing happens before."""

    @property
    def going_on(self) -> bool:
        """Whether the first attempt goes on, or is about to: nothing is known yet, and nothing in the way."""
        return bool(self.progress.jobs) and self.progress.found is None and self.progress.failure is None

    @property
    def told(self) -> str:
        """What goes on, in a sentence or two."""
        job = next((ref.name for ref in self.desired if ref.kind == JOB), "")
        waiting = self.progress.waiting
        why = f" Its pod does not run: {waiting}" if waiting else ""
        return f"Job {job} reads what the model's files say of its size.{why}"

    def until(self, now: datetime) -> datetime | None:
        """When that changes, if nothing happens before: the next attempt, or a Job that is no longer needed."""
        kept = self.progress.found is not None and any(ref.kind == JOB for ref in self.desired)
        again = (self.progress.again,) if self.progress.again else ()
        return now + TIDYING if kept else min((*again, *self.due), default=None)


def inspecting(
    files: ModelFiles,
    live: Mapping[Ref, Manifest],
    pods: Sequence[PodView],
    now: datetime,
    seen: Seen,
    *,
    wanted: bool,
) -> Inspecting:
    """How far the inspection has come. What a Job found is kept before the Job goes.

    Args:
        files: the model.
        live: the children that there are.
        pods: their pods.
        now: the time.
        seen: what was found of Events.
        wanted: whether anybody waits for it; else there is no further attempt.
    """
    ref = model_config_ref(files.spec.model.source, files.access.revision, owner=files.owner)
    if kept := kept_model(live.get(ref)):
        return Inspecting(Progress(found=kept), {ref: model_config_map(ref, kept, owner=files.owner)})
    first = _job(files, 1)
    asked = first["metadata"]["annotations"][ASKED_ANNOTATION]
    own = [pod for pod in pods if pod.component == INSPECTION]
    going = [attempt(one, own) for found, one in live.items() if found.kind == JOB and _counts(one)]
    meant = [_explained(one, seen) for one in going if one.asked == asked]
    made = progress(meant, now, wanted=wanted)
    jobs = [_job(files, number) for number in made.jobs]
    waits = [one.wait for one in meant if one.wait and one.number in made.jobs]
    kept_from_now = [model_config_map(ref, made.found, owner=files.owner)] if made.found else []
    return Inspecting(
        made,
        {Ref.of(one): one for one in (*kept_from_now, *jobs)},
        looks=tuple(wait.look for wait in waits if wait.due <= now),
        due=tuple(wait.due for wait in waits if wait.due > now),
    )


def _explained(one: Attempt, seen: Seen) -> Attempt:
    """The same, with what Events tell of why it does not get on."""
    found = seen.get(one.wait.look) if one.wait else None
    return replace(one, problem=one.problem or why(found)) if isinstance(found, Told) else one


def without_jobs(live: Mapping[Ref, Manifest]) -> dict[Ref, Manifest]:
    """The children that are not about inspecting, and what inspections before have found."""
    return {ref: one for ref, one in live.items() if ref.kind != JOB}


def _job(files: ModelFiles, number: int) -> Manifest:
    return inspection_job(
        files.spec, files.source, files.access, attempt=number, owner=files.owner, settings=files.settings
    )


def _counts(job: Manifest) -> bool:
    return "deletionTimestamp" not in job["metadata"]
