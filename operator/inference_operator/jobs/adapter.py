"""The copy of an adapter to the claim of `spec.cache`: a Job for each adapter, so that none waits for another."""

from functools import partial

from inference_operator.api.adapters import AdapterSpec
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.jobs.download import RESOURCES
from inference_operator.jobs.download_result import StoredAdapter, adapter_record_data, parsed_adapter, recorded_adapter
from inference_operator.jobs.placement import WritableClaim
from inference_operator.jobs.program import program_process
from inference_operator.jobs.record import Record
from inference_operator.jobs.result import TERMINATION_MESSAGE, refusal_of
from inference_operator.jobs.state import JobState, ObservedJobs, job_state
from inference_operator.jobs.task import JobTask
from inference_operator.manifest import Owner
from inference_operator.models.source import ModelSource, is_downloaded
from inference_operator.objects import volumes
from inference_operator.objects.cache_volume import ROOT, whole_mount
from inference_operator.objects.child import content_hash
from inference_operator.objects.names import ADAPTER
from inference_operator.roles.context import SharedContext

DEADLINE_SECONDS = 3600
"""Time limit of one attempt: an adapter has some GB at most."""


def access_of(adapter: AdapterSpec, model: ModelSpec) -> ModelSpec:
    """The adapter as a model of its own: an engine's access to it is that to such a model.

    It has the token of the model, unless it names another one, and the store of `model.s3`.
    """
    token = adapter.token_secret_ref or (model.token_secret_ref if adapter.source.startswith("hf://") else None)
    update = {"source": adapter.source, "revision": adapter.revision, "token_secret_ref": token, "s3": model.s3}
    return model.model_copy(update=update)


def adapter_state(
    shared: SharedContext, adapter: AdapterSpec, source: ModelSource, claim: WritableClaim, observed: ObservedJobs
) -> JobState[StoredAdapter]:
    state = job_state(adapter_task(shared, adapter, source, claim), observed)
    return state if claim.is_known else state.without_new_jobs(observed.live)


def adapter_record(owner: Owner, adapter: AdapterSpec, claim: str) -> Record[StoredAdapter]:
    """The ConfigMap for the result. A branch is resolved once: its commit stays."""
    asked = content_hash(["adapter", adapter.source, adapter.revision or "", claim])
    data = partial(adapter_record_data, claim=claim, source=adapter.source)
    return Record(owner, ADAPTER, asked, data, recorded_adapter)


def adapter_task(
    shared: SharedContext, adapter: AdapterSpec, source: ModelSource, claim: WritableClaim
) -> JobTask[StoredAdapter]:
    access, settings, pull_policy = shared.access, shared.settings, shared.settings.image_pull_policy
    revision = [f"--revision={adapter.revision}"] if adapter.revision else []
    pickle = ["--allow-pickle"] if shared.effective.model.allow_pickle else []
    folder = [] if is_downloaded(source) else [f"--folder={volumes.model_argument(source)}"]
    arguments = ["--adapter", *folder, *revision, *pickle, f"--cache={ROOT}", f"--to={TERMINATION_MESSAGE}"]
    return JobTask(
        shared=shared,
        component=ADAPTER,
        subject=f"the adapter `{adapter.name}`",
        purpose=f"copies the adapter `{adapter.name}` to the claim {claim.name}",
        image=settings.operator_image,
        process=program_process(settings, access, "download", adapter.source, args=arguments),
        resources=RESOURCES,
        deadline_seconds=DEADLINE_SECONDS,
        volumes=[
            *claim.volumes,
            *volumes.model_volumes(source, pull_policy=pull_policy),
            *volumes.writable_volumes(access.writable),
        ],
        mounts=[whole_mount(), *volumes.model_mounts(source), *volumes.writable_mounts(access.writable)],
        where_engines_run=True,
        placement=claim.placement,
        record=adapter_record(shared.owner, adapter, claim.name),
        parse=parsed_adapter,
        refuse=partial(refusal_of, timed_out=Reason.DOWNLOAD_FAILED, verb="tried", field=field_of(adapter)),
    )


def field_of(adapter: AdapterSpec) -> str:
    return f"spec.model.adapters[{adapter.name}].source"
