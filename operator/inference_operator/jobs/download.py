"""The download of a model to a claim: a Job writes its files there, and its log shows how far it is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from inference_operator.api.reasons import Reason
from inference_operator.jobs.download_result import Downloaded, parsed_download, record_data, recorded_download
from inference_operator.jobs.placement import WritableClaim
from inference_operator.jobs.program import program_process
from inference_operator.jobs.record import Record
from inference_operator.jobs.result import TERMINATION_MESSAGE, refusal_of
from inference_operator.jobs.state import JobState, ObservedJobs, job_state
from inference_operator.jobs.task import JobTask
from inference_operator.manifest import Manifest
from inference_operator.objects.cache_volume import ROOT, whole_mount
from inference_operator.objects.child import content_hash
from inference_operator.objects.names import DOWNLOAD
from inference_operator.objects.volumes import writable_mounts, writable_volumes
from inference_operator.roles.context import SharedContext
from inference_operator.views.lookups import LogLookup, LogText, Lookup, LookupResults

DEADLINE_SECONDS = 24 * 3600
"""Time limit of one attempt: 1,300 GB, as the largest open models have, at 15 MB/s. The next attempt continues it."""

RESOURCES: Manifest = {
    "requests": {"cpu": "500m", "memory": "512Mi", "ephemeral-storage": "64Mi"},
    "limits": {"cpu": "4", "memory": "2Gi", "ephemeral-storage": "256Mi"},
}
"""Four downloads at once, which the hub's client writes in parts of 10 MiB, and SHA-256 of the written files."""

_STEP = re.compile(r"^Downloading \d{1,3} %[ -~]{0,80}$", re.MULTILINE)
"""A line of `infd download`, which writes one for each step of 5 %."""


@dataclass(frozen=True, slots=True)
class Download:
    shared: SharedContext
    commit: str
    """The commit that engines load; empty if the hub could not be asked when the engines were sized."""
    claim: WritableClaim
    draft: str = ""
    """Repository of a second model that engines load; empty if there is none."""
    draft_revision: str = ""
    kernels: Sequence[str] = ("",)
    """Folders of the compiled kernels on it; one that is empty stands for none."""
    empties_kernels: bool = False
    """Whether the Job deletes the compiled kernels, because an engine found them broken."""

    @property
    def revision(self) -> str:
        """The revision to download; empty is the default branch."""
        return self.commit or self.shared.access.revision or ""


def download_state(inputs: Download, observed: ObservedJobs) -> JobState[Downloaded]:
    state = job_state(download_task(inputs), observed, repeated=inputs.empties_kernels)
    logs = _logs(inputs, state, observed)
    step = next((step for log in logs if (step := _last_step(observed.results, log))), "")
    state = state if inputs.claim.is_known else state.without_new_jobs(observed.live)
    state = replace(state, lookups=(*state.lookups, *logs))
    # While a retry makes progress, the message alone has the failure before it.
    return replace(state, refusal=None if step else state.refusal, message=_message(inputs, state, step))


def download_task(inputs: Download) -> JobTask[Downloaded]:
    model, access, settings = inputs.shared.effective.model, inputs.shared.access, inputs.shared.settings
    revision = [f"--revision={inputs.revision}"] if inputs.revision else []
    pickle = ["--allow-pickle"] if model.allow_pickle else []
    draft = [f"--draft=hf://{inputs.draft}"] if inputs.draft else []
    draft += [f"--draft-revision={inputs.draft_revision}"] if inputs.draft_revision else []
    empties = ["--empty-kernels"] if inputs.empties_kernels else []
    paths = [f"--cache={ROOT}", *(f"--kernels={key}" for key in inputs.kernels), f"--to={TERMINATION_MESSAGE}"]
    arguments = (*revision, *draft, *pickle, *empties, *paths)
    return JobTask(
        shared=inputs.shared,
        component=DOWNLOAD,
        subject="the download of the model",
        purpose=f"downloads the model to the claim {inputs.claim.name}",
        image=settings.operator_image,
        process=program_process(settings, access, "download", model.source, args=arguments),
        resources=RESOURCES,
        deadline_seconds=DEADLINE_SECONDS,
        volumes=[*inputs.claim.volumes, *writable_volumes(access.writable)],
        mounts=[whole_mount(), *writable_mounts(access.writable)],
        where_engines_run=True,
        placement=inputs.claim.placement,
        record=_record(inputs),
        parse=parsed_download,
        refuse=partial(refusal_of, timed_out=Reason.DOWNLOAD_FAILED, verb="tried"),
    )


def _record(inputs: Download) -> Record[Downloaded]:
    model, claim = inputs.shared.effective.model.source, inputs.claim.name
    draft = [f"{inputs.draft}@{inputs.draft_revision}"] if inputs.draft else []
    asked = content_hash([model, inputs.revision, claim, *inputs.kernels, *draft])
    data = partial(record_data, claim=claim, model=model, draft=inputs.draft)
    return Record(inputs.shared.owner, DOWNLOAD, asked, data, recorded_download)


def _logs(inputs: Download, state: JobState[Downloaded], observed: ObservedJobs) -> list[LogLookup]:
    """The logs of the Jobs' pods that run; none if the operator may not read logs."""
    names = tuple(f"{job}-" for job in state.jobs)
    if not inputs.shared.settings.read_logs:
        return []
    namespace = inputs.shared.owner.key.namespace
    own = (pod for pod in observed.pods if pod.component == DOWNLOAD and pod.name.startswith(names))
    running = (pod for pod in own if pod.is_serving)  # it has no probes, so it is ready while it runs
    return [LogLookup(namespace, pod.name, pod.uid, DOWNLOAD, run=0, previous=False, running=True) for pod in running]


def _last_step(results: LookupResults, log: Lookup) -> str:
    result = results.get(log)
    steps = _STEP.findall(result.text) if isinstance(result, LogText) else []
    return str(steps[-1]) if steps else ""


def _message(inputs: Download, state: JobState[Downloaded], step: str) -> str:
    """Progress: the Job, why its pod does not run or how far it is, and why the attempt before failed."""
    claim, waiting, failure = inputs.claim.name, state.progress.waiting, state.progress.failure
    if state.complete:
        return ""
    if not state.jobs:
        return f"The claim {claim} is looked up, and then the model is downloaded to it."
    job = state.jobs[-1]
    why = f" Its pod does not run: {waiting.message}" if waiting else f" {step}." if step else ""
    if inputs.empties_kernels:
        return f"Compiled kernels on the claim {claim} are broken. Job {job} deletes them.{why}"
    former = f" The attempt before failed: {failure.why.field}: {failure.why.problem}" if failure else ""
    return f"Job {job} downloads the model to the claim {claim}.{why}{former}"
