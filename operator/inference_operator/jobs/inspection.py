"""The inspection of a model: a Job reads the model's files to determine its size."""

from functools import partial

from inference_operator.api.model import ModelSpec
from inference_operator.jobs.inspection_result import inspection_refusal, parsed_result, result_text
from inference_operator.jobs.program import program_process
from inference_operator.jobs.record import Record, result_in
from inference_operator.jobs.result import TERMINATION_MESSAGE
from inference_operator.jobs.task import JobTask
from inference_operator.manifest import Manifest, Owner
from inference_operator.models.entry import Entry
from inference_operator.models.source import DOWNLOADED
from inference_operator.objects import volumes
from inference_operator.objects.child import content_hash
from inference_operator.objects.names import INSPECTION
from inference_operator.roles.context import SharedContext

INSPECTION_VERSION = 3
"""Raised when facts depend on more of a model's files than before: each model then needs a new inspection."""

MODEL_FILE = "model.json"
"""Key of the record with the result."""

DEADLINE_SECONDS = 600
"""Time limit of the Job: for a node, the operator's image, the volume, and `infd inspect`, which may take 2 minutes."""

RESOURCES: Manifest = {
    "requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "64Mi"},
    "limits": {"cpu": "1", "memory": "512Mi", "ephemeral-storage": "256Mi"},
}
"""`infd inspect` uses 56 MiB of memory for a usual model, and 190 MiB for an index of 32 MiB. It stores that index on
disk once."""


def inspection_task(shared: SharedContext) -> JobTask[Entry]:
    model, source, access, settings = shared.effective.model, shared.source, shared.access, shared.settings
    where = [f"--folder={volumes.MODEL_PATH}"] if not isinstance(source, DOWNLOADED) else []
    revision = [f"--revision={access.revision}"] if access.revision else []
    pickle = ["--allow-pickle"] if model.allow_pickle else []
    arguments = [*where, *revision, *pickle, "--output=json", f"--to={TERMINATION_MESSAGE}"]
    return JobTask(
        shared=shared,
        component=INSPECTION,
        subject="the model's files",
        purpose="reads the model's files to determine its size",
        image=settings.operator_image,
        process=program_process(settings, access, "inspect", model.source, args=arguments),
        resources=RESOURCES,
        deadline_seconds=DEADLINE_SECONDS,
        volumes=[
            *volumes.model_volumes(source, pull_policy=settings.image_pull_policy),
            *volumes.writable_volumes(access.writable),
        ],
        mounts=[*volumes.model_mounts(source), *volumes.writable_mounts(access.writable)],
        where_engines_run=not isinstance(source, DOWNLOADED),
        record=model_record(model, access.revision, owner=shared.owner),
        parse=parsed_result,
        refuse=inspection_refusal,
    )


def model_record(model: ModelSpec, revision: str | None, *, owner: Owner) -> Record[Entry]:
    pickle = ["pickle"] if model.allow_pickle else []
    source_hash = content_hash([model.source, revision, INSPECTION_VERSION, *pickle])
    read = partial(result_in, MODEL_FILE, parsed_result)
    return Record(owner, INSPECTION, source_hash, lambda entry: {MODEL_FILE: result_text(entry)}, read)
