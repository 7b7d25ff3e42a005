"""State of a model's download to a claim: a Job while it is not complete, then a ConfigMap that says so."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from inference_operator.api.refusal import Refusal
from inference_operator.inspection.attempts import AttemptsProgress
from inference_operator.inspection.job_attempt import JOB_HASH_ANNOTATION, Attempt, job_attempt
from inference_operator.inspection.job_progress import ObservedJobs, is_job, job_progress, next_change
from inference_operator.inspection.result import Cause, refusal_of
from inference_operator.manifest import CONFIG_MAP, JOB, Manifest, Ref
from inference_operator.model_cache.job import DownloadRequest, download_hash, download_job
from inference_operator.model_cache.placement import placement_of
from inference_operator.model_cache.result import Downloaded, downloaded_text, parsed_download
from inference_operator.objects.child import child
from inference_operator.objects.names import COMPONENT_LABEL, DOWNLOAD, download_config_name
from inference_operator.views.lookups import LogLookup, LogText, Lookup, LookupResults
from inference_operator.views.pod import PodView
from inference_operator.views.raw import mapping

RESULT_FILE = "download.json"
_STEP = re.compile(r"^Downloading \d{1,3} %[ -~]{0,80}$", re.MULTILINE)
"""A line of `infd download`, which writes one for each step of 5 %."""


@dataclass(frozen=True, slots=True)
class DownloadState:
    """How far a download is, and the objects that it needs."""

    progress: AttemptsProgress[Downloaded] = field(default_factory=AttemptsProgress)
    desired: Mapping[Ref, Manifest] = field(default_factory=dict)
    lookups: tuple[Lookup, ...] = ()
    """Events that show why a Job makes no progress, and the log with its progress."""
    due: tuple[datetime, ...] = ()
    """When more lookups become necessary."""
    step: str = ""
    """The last line of progress in the log of the Job's pod; empty if there is none yet."""
    claim: str = ""
    empties_kernels: bool = False
    """Whether the Job also deletes broken kernels."""

    @property
    def complete(self) -> bool:
        """Whether the model is complete on the claim."""
        return self.progress.entry is not None

    @property
    def refusal(self) -> Refusal | None:
        """Why the last attempt failed; None if it did not, or if the one after it has downloaded something."""
        failure = self.progress.failure
        if failure is None or self.step:
            return None
        refusal = refusal_of(replace(failure, cause=Cause.DAMAGED) if failure.cause is Cause.TIMED_OUT else failure)
        return replace(refusal, cure=f"{failure.why.cure} It is tried again, at least every 10 minutes.")

    @property
    def message(self) -> str:
        """Progress in one or two sentences; empty once the model is complete."""
        if self.complete:
            return ""
        jobs = [ref.name for ref in self.desired if ref.kind == JOB]
        if not jobs:
            return f"The claim {self.claim} is looked up, and then the model is downloaded to it."
        job, waiting = jobs[-1], self.progress.waiting
        why = f" Its pod does not run: {waiting}" if waiting else f" {self.step}." if self.step else ""
        if self.empties_kernels:
            return f"Compiled kernels on the claim {self.claim} are broken. Job {job} deletes them.{why}"
        failure = self.progress.failure
        former = f" The attempt before failed: {failure.why.field} {failure.why.problem}" if failure else ""
        return f"Job {job} downloads the model to the claim {self.claim}.{why}{former}"

    def recheck_at(self, now: datetime) -> datetime | None:
        """When the state changes without an event: the next attempt, or a Job that is no longer needed."""
        has_job = any(ref.kind == JOB for ref in self.desired)
        return next_change(self.progress, self.due, now, has_job=has_job)


def download_state(
    request: DownloadRequest,
    live: Mapping[Ref, Manifest],
    pods: Sequence[PodView],
    now: datetime,
    results: LookupResults,
    *,
    read_logs: bool,
) -> DownloadState:
    """How far the download is. The end of a Job is recorded before the Job is deleted.

    Args:
        request: the model and the claim.
        live: the live children.
        pods: their pods.
        now: the time.
        results: results of lookups.
        read_logs: whether the operator may read logs.
    """
    owner, claim = request.owner, request.cache.claim
    ref = Ref(CONFIG_MAP, owner.key.namespace, download_config_name(owner.key.name, download_hash(request)))
    stored = _stored(live.get(ref))
    if stored and not request.empties_kernels:
        return DownloadState(AttemptsProgress(entry=stored), {ref: _config_map(ref, stored, request)}, claim=claim)
    job_hash = download_job(request, attempt=1)["metadata"]["annotations"][JOB_HASH_ANNOTATION]
    observed = ObservedJobs(live, pods, now, results)
    found = job_progress(observed, DOWNLOAD, job_hash, wanted=True, parsed=parsed_download)
    progress = found.attempts
    wanted = [download_job(_kept(request, job_hash, number, observed), attempt=number) for number in progress.jobs]
    entry = progress.entry or stored
    recorded = [_config_map(ref, entry, request)] if entry else []
    names = tuple(f"{job['metadata']['name']}-" for job in wanted)
    running = [_log(pod, owner.key.namespace) for pod in pods if _runs(pod) and pod.name.startswith(names)]
    logs = running if read_logs and names else []
    return DownloadState(
        progress,
        {Ref.of(one): one for one in (*recorded, *wanted)},
        lookups=(*found.lookups, *logs),
        due=found.due,
        step=next((step for log in logs if (step := _last_step(results, log))), ""),
        claim=claim,
        empties_kernels=request.empties_kernels,
    )


def _kept(request: DownloadRequest, job_hash: str, attempt: int, observed: ObservedJobs) -> DownloadRequest:
    """The request with the placement of the attempt's live Job, once that Job runs or has ended."""
    anywhere = replace(request, placement=None)
    for job in observed.live.values():
        told = job_attempt(job, observed.pods) if is_job(job, DOWNLOAD) else None
        if told and (told.job_hash, told.number) == (job_hash, attempt) and (told.finished or _has_run(told, observed)):
            if told.job == download_job(anywhere, attempt=attempt)["metadata"]["name"]:
                return anywhere
            return replace(request, placement=placement_of(job["spec"]["template"]["spec"]))
    return request


def _has_run(attempt: Attempt, observed: ObservedJobs) -> bool:
    """Whether the container of an attempt has started."""
    own = (pod for pod in observed.pods if pod.name.startswith(f"{attempt.job}-"))
    return any(pod.ready or pod.failed or pod.termination_message for pod in own)


def without_downloads(live: Mapping[Ref, Manifest]) -> dict[Ref, Manifest]:
    """All objects but the Jobs and ConfigMaps of downloads."""
    return {ref: one for ref, one in live.items() if not _is_of_download(one)}


def _runs(pod: PodView) -> bool:
    """Whether a pod is that of a Job and runs: it has no probes, so it is ready while it does."""
    return pod.component == DOWNLOAD and pod.ready and not pod.terminating


def _log(pod: PodView, namespace: str) -> LogLookup:
    return LogLookup(namespace, pod.name, pod.uid, DOWNLOAD, run=0, previous=False, running=True)


def _last_step(results: LookupResults, log: Lookup) -> str:
    found = results.get(log)
    steps = _STEP.findall(found.text) if isinstance(found, LogText) else []
    return str(steps[-1]) if steps else ""


def _is_of_download(manifest: Manifest) -> bool:
    return mapping(mapping(manifest, "metadata"), "labels").get(COMPONENT_LABEL) == DOWNLOAD


def _config_map(ref: Ref, result: Downloaded, request: DownloadRequest) -> Manifest:
    content = {
        "data": {
            RESULT_FILE: downloaded_text(result),
            "claim": request.cache.claim,
            "model": request.spec.model.source,
        }
    }
    return child(ref.kind, ref.name, owner=request.owner, component=DOWNLOAD, content=content)


def _stored(config: Manifest | None) -> Downloaded | None:
    text = mapping(config or {}, "data").get(RESULT_FILE)
    result = parsed_download(text) if isinstance(text, str) else None
    return result if isinstance(result, Downloaded) else None
