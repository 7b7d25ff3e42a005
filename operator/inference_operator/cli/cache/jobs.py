"""The Jobs of `infd cache`, which belong to no resource: one downloads a model to a claim, one prunes the claim."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inference_operator.cli.cache.contents import ClaimObjects, job_end
from inference_operator.cli.cluster_command import list_objects
from inference_operator.controller.cluster import ClusterError
from inference_operator.engines.model_access import HubAccess
from inference_operator.jobs.download import RESOURCES, Download, download_task
from inference_operator.jobs.download_result import Downloaded, record_data
from inference_operator.jobs.placement import mounted_claims, only_node
from inference_operator.jobs.result import TERMINATION_MESSAGE
from inference_operator.jobs.task import job_container, job_fields, job_pod
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import (
    CONFIG_MAP,
    DEPLOYMENT,
    INFERENCE_DEPLOYMENT,
    JOB,
    POD,
    STATEFUL_SET,
    Kind,
    Manifest,
    Ref,
)
from inference_operator.model_files.uses import COMMAND, Uses, keep_arguments
from inference_operator.objects.cache_volume import ROOT, CacheVolume, cache_volumes, whole_mount
from inference_operator.objects.child import content_hash
from inference_operator.objects.container import process_fields
from inference_operator.objects.names import COMPONENT_LABEL, DOWNLOAD, MANAGED_BY_LABEL
from inference_operator.settings import Settings
from inference_operator.views.raw import condition, mapping, objects
from inference_operator.views.untrusted_text import one_line

PRUNE = "prune"
KEPT_SECONDS = 3600
"""How long an ended Job stays, so that its log can be read."""
PRUNE_DEADLINE_SECONDS = 3600
"""Time limit of pruning: deleting some thousand files takes minutes on slow network file systems."""


def prefetch_job(inputs: Download) -> Manifest:
    """The Job of a download without a resource: as the operator creates it, but with another name and no owner."""
    content = download_task(inputs).content
    return _job("prefetch", inputs.shared.owner.key.namespace, content["spec"])


def prefetch_record(inputs: Download, result: Downloaded) -> Manifest:
    """The ConfigMap that lets `infd cache list` know the model after the Job is gone."""
    source, claim = inputs.shared.effective.model.source, inputs.claim.name
    name = f"{COMMAND}-prefetch-{content_hash([source, result.commit, claim])}"
    head = _object(CONFIG_MAP, name, inputs.shared.owner.key.namespace, DOWNLOAD)
    return {**head, "data": record_data(result, claim=claim, model=source)}


def prune_job(
    claim: str, namespace: str, uses: Uses, access: HubAccess, settings: Settings, *, dry_run: bool, node: str
) -> Manifest:
    last = ["--dry-run"] if dry_run else []
    arguments = [f"--cache={ROOT}", *keep_arguments(uses), *last, f"--to={TERMINATION_MESSAGE}"]
    process = process_fields(command=[COMMAND, PRUNE], args=arguments)
    image, mounts = settings.operator_image, [whole_mount()]
    container = job_container(PRUNE, process, settings, image=image, resources=RESOURCES, mounts=mounts)
    volumes = cache_volumes(CacheVolume(claim, ""))
    pod = {
        **job_pod(container, volumes, access, settings, settings.engine_defaults.template),
        **({"affinity": only_node(node)} if node else {}),
    }
    return _job(PRUNE, namespace, job_fields(PRUNE_DEADLINE_SECONDS, {"spec": pod})["spec"])


def on_node(job: Manifest, node: str) -> Manifest:
    if not node:
        return job
    template = job["spec"]["template"]
    pod = {**template["spec"], "affinity": only_node(node)}
    return {**job, "spec": {**job["spec"], "template": {**template, "spec": pod}}}


def claim_node(claim: str, access_modes: Sequence[str], pods: Sequence[Manifest]) -> str:
    """The node on which running pods mount a claim that one node only can mount; empty if any node will do.

    Examples:
        >>> volumes = [{"persistentVolumeClaim": {"claimName": "models"}}]
        >>> pod = {"spec": {"nodeName": "a", "volumes": volumes}, "status": {"phase": "Running"}}
        >>> claim_node("models", ["ReadWriteOnce"], [pod]), claim_node("models", ["ReadWriteMany"], [pod])
        ('a', '')
    """
    if {"ReadWriteMany", "ReadOnlyMany"} & set(access_modes):
        return ""
    running = (pod["spec"] for pod in pods if mapping(pod, "status").get("phase") in ("Pending", "Running"))
    nodes = (str(pod.get("nodeName") or "") for pod in running if claim in mounted_claims(pod).values())
    return next((node for node in nodes if node), "")


def _job(what: str, namespace: str, spec: Manifest) -> Manifest:
    name = f"{COMMAND}-{what}-{content_hash(spec)}"
    head = _object(JOB, name, namespace, DOWNLOAD if what == "prefetch" else what)
    labels = head["metadata"]["labels"]
    template = {**spec["template"], "metadata": {"labels": labels}}
    return {**head, "spec": {**spec, "template": template, "ttlSecondsAfterFinished": KEPT_SECONDS}}


def _object(kind: Kind, name: str, namespace: str, component: str) -> Manifest:
    labels = {MANAGED_BY_LABEL: COMMAND, COMPONENT_LABEL: component}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}


POLL_SECONDS = 2.0
RESULT_POLLS = 15
"""Polls after the end of a Job for its pod's termination message: the status of the pod may be seen later."""
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
_DOWNLOADS = f"{COMPONENT_LABEL}={DOWNLOAD}"
_STEP = "Downloading "

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ended:
    succeeded: bool
    message: str
    log: str


async def observed(cluster: KubeCluster, namespace: str | None) -> ClaimObjects:
    return ClaimObjects(
        await list_objects(cluster, INFERENCE_DEPLOYMENT, namespace),
        await list_objects(cluster, CONFIG_MAP, namespace, _DOWNLOADS),
        await list_objects(cluster, JOB, namespace, _DOWNLOADS),
    )


async def workloads(cluster: KubeCluster, namespace: str) -> list[Manifest]:
    return [
        one for kind in (DEPLOYMENT, STATEFUL_SET, JOB, POD) for one in await list_objects(cluster, kind, namespace)
    ]


async def last_step(cluster: KubeCluster, job: Manifest) -> str:
    pod = await _pod(cluster, job)
    lines = (await _log(cluster, pod)).splitlines() if pod else []
    return next((line for line in reversed(lines) if line.startswith(_STEP)), "")


async def start(cluster: KubeCluster, job: Manifest, say: Say) -> Ref:
    """Create a Job, unless one with the same content runs already. One that has ended is deleted first."""
    ref = Ref.of(job)
    live = await cluster.get(ref)
    if live is not None and not job_end(live):
        say(f"Job {ref.name} runs already.")
        return ref
    if live is not None:
        await cluster.delete(ref, uid=live["metadata"]["uid"])
        while await cluster.get(ref) is not None:  # noqa: ASYNC110 - one object that goes in a second needs no watch
            await asyncio.sleep(POLL_SECONDS)
    await cluster.create(ref, job)
    say(f"Created Job {ref.name} in the namespace {ref.namespace}.")
    return ref


async def follow(cluster: KubeCluster, ref: Ref, say: Say) -> Ended:
    """Wait until a Job is over; say each new line of its log, and why its pod does not run."""
    said, waiting, polls_left = 0, "", RESULT_POLLS
    while True:
        job = await cluster.get(ref)
        if job is None:
            return Ended(succeeded=False, message=f"Job {ref.name} was deleted.", log="")
        pod, end = await _pod(cluster, job), job_end(job)
        log = await _log(cluster, pod) if pod else ""
        lines = log.splitlines()
        for line in lines[said:]:
            say(line)
        said = max(said, len(lines))
        if (why := _waiting(pod)) and why != waiting:
            say(f"The pod does not run: {why}")
            waiting = why
        message = _message(pod)
        if end and (message or not polls_left):
            return Ended(end == "Complete", message, log)
        polls_left -= bool(end)
        await asyncio.sleep(POLL_SECONDS)


async def delete(cluster: KubeCluster, ref: Ref) -> None:
    if live := await cluster.get(ref):
        await cluster.delete(ref, uid=live["metadata"]["uid"])


async def _pod(cluster: KubeCluster, job: Manifest) -> Manifest | None:
    meta = job["metadata"]
    pods = await list_objects(cluster, POD, meta["namespace"], f"{JOB_NAME_LABEL}={meta['name']}")
    return max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)


async def _log(cluster: KubeCluster, pod: Manifest) -> str:
    try:
        return await cluster.api.text(f"{Ref.of(pod).path}/log", POD, query={})
    except ClusterError:
        return ""


def _statuses(pod: Manifest | None) -> list[Manifest]:
    return list(objects(mapping(pod or {}, "status"), "containerStatuses"))


def _message(pod: Manifest | None) -> str:
    ended = (mapping(one, "state", "terminated") for one in _statuses(pod))
    return next((str(one["message"]) for one in ended if one.get("message")), "")


def _waiting(pod: Manifest | None) -> str:
    scheduled = condition(mapping(pod or {}, "status"), "PodScheduled")
    if scheduled.get("status") == "False":
        return one_line(scheduled.get("message") or scheduled.get("reason"))
    waits = (mapping(one, "state", "waiting") for one in _statuses(pod))
    found = next((one for one in waits if one and one.get("reason") != "ContainerCreating"), {})
    return " ".join(one_line(part) for part in (found.get("reason"), found.get("message")) if part)
