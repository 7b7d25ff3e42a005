"""A task that the operator does not have: a Job that converts the model's files. This is all that it needs to say."""

from functools import partial

from inference_operator.api.reasons import Reason
from inference_operator.jobs.record import Record
from inference_operator.jobs.result import TERMINATION_MESSAGE, Failure, line, parsed, refusal_of
from inference_operator.jobs.state import JobState, ObservedJobs, job_state
from inference_operator.jobs.task import JobTask
from inference_operator.manifest import Manifest
from inference_operator.objects.cache_volume import ROOT, CacheVolume, cache_volumes, whole_mount
from inference_operator.objects.child import content_hash
from inference_operator.objects.container import environment, process_fields
from inference_operator.roles.context import SharedContext

CONVERSION = "conversion"
FILE = "file"
"""Key of the record with the path of the converted model."""


def conversion_state(shared: SharedContext, cache: CacheVolume, observed: ObservedJobs) -> JobState[str]:
    """How far the conversion is."""
    return job_state(conversion_task(shared, cache), observed)


def conversion_task(shared: SharedContext, cache: CacheVolume) -> JobTask[str]:
    """The conversion as a task; its result is the path of the converted model."""
    source = shared.effective.model.source
    return JobTask(
        shared=shared,
        component=CONVERSION,
        subject="the converted model",
        purpose=f"converts the model on the claim {cache.claim}",
        image="registry.example/converter:1",
        process=process_fields(
            command=["convert", source], args=[f"--to={TERMINATION_MESSAGE}", ROOT], env=environment(shared.access.env)
        ),
        resources={"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        deadline_seconds=3600,
        volumes=cache_volumes(cache),
        mounts=[whole_mount()],
        where_engines_run=True,
        record=Record(shared.owner, CONVERSION, content_hash([source]), lambda path: {FILE: path}, _path),
        parse=parse,
        refuse=partial(refusal_of, timed_out=Reason.DOWNLOAD_FAILED, verb="converted"),
    )


def text(path: str) -> str:
    """The Job's termination message."""
    return line({FILE: path})


def parse(message: str) -> str | Failure | None:
    """Reads it."""
    return parsed(message, _path)


def _path(fields: Manifest) -> str | None:
    return str(fields[FILE]) if fields.get(FILE) else None
