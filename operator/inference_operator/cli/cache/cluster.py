"""The cluster as `infd cache` sees it: it lists claims, resources and Jobs, and runs a Job."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from inference_operator.controller.cluster import ClusterError
from inference_operator.kube.client import Api
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
from inference_operator.objects.names import COMPONENT_LABEL, DOWNLOAD
from inference_operator.views.raw import mapping, objects
from inference_operator.views.untrusted_text import one_line

POLL_SECONDS = 2.0
RESULT_POLLS = 15
"""Polls after the end of a Job for its pod's termination message: the status of the pod may be seen later."""
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
_DOWNLOADS = f"{COMPONENT_LABEL}={DOWNLOAD}"
_STEP = "Downloading "

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ClaimObjects:
    """The objects from which `infd cache` knows the models on claims and their users; of one namespace, or of all."""

    resources: list[Manifest]
    records: list[Manifest]
    jobs: list[Manifest]
    """Of downloads."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A Job that is over."""

    succeeded: bool
    message: str
    """Termination message of its pod; empty if there is none."""
    log: str
    """Of its pod; empty if it could not be read."""


async def observed(cluster: KubeCluster, namespace: str | None) -> ClaimObjects:
    """Resources, records and Jobs of a namespace; None is all namespaces."""
    return ClaimObjects(
        await listed(cluster, INFERENCE_DEPLOYMENT, namespace),
        await listed(cluster, CONFIG_MAP, namespace, _DOWNLOADS),
        await listed(cluster, JOB, namespace, _DOWNLOADS),
    )


async def workloads(cluster: KubeCluster, namespace: str) -> list[Manifest]:
    """Everything in a namespace that may mount a claim."""
    return [one for kind in (DEPLOYMENT, STATEFUL_SET, JOB, POD) for one in await listed(cluster, kind, namespace)]


async def listed(cluster: KubeCluster, kind: Kind, namespace: str | None, labels: str | None = None) -> list[Manifest]:
    """All objects of a kind, with their kind, which lists omit."""
    head = {"apiVersion": kind.api_version, "kind": kind.name}
    return [{**one, **head} async for one in cluster.each(kind, namespace=namespace, labels=labels)]


async def last_step(api: Api, cluster: KubeCluster, job: Manifest) -> str:
    """The last line of progress of a Job of a download; empty if there is none."""
    pod = await _pod(cluster, job)
    lines = (await _log(api, pod)).splitlines() if pod else []
    return next((line for line in reversed(lines) if line.startswith(_STEP)), "")


async def start(cluster: KubeCluster, job: Manifest, say: Say) -> Ref:
    """Create a Job, unless one with the same content runs already. One that has ended is deleted first."""
    ref = Ref.of(job)
    live = await cluster.get(ref)
    if live is not None and not _end(live):
        say(f"Job {ref.name} runs already.")
        return ref
    if live is not None:
        await cluster.delete(ref, uid=live["metadata"]["uid"])
        while await cluster.get(ref) is not None:  # noqa: ASYNC110 - one object that goes in a second needs no watch
            await asyncio.sleep(POLL_SECONDS)
    await cluster.create(ref, job)
    say(f"Created Job {ref.name} in the namespace {ref.namespace}.")
    return ref


async def follow(api: Api, cluster: KubeCluster, ref: Ref, say: Say) -> Ended:
    """Wait until a Job is over; say each new line of its log, and why its pod does not run."""
    said, waiting, polls_left = 0, "", RESULT_POLLS
    while True:
        job = await cluster.get(ref)
        if job is None:
            return Ended(succeeded=False, message=f"Job {ref.name} was deleted.", log="")
        pod, end = await _pod(cluster, job), _end(job)
        log = await _log(api, pod) if pod else ""
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
    """Delete an object, if it is still there."""
    if live := await cluster.get(ref):
        await cluster.delete(ref, uid=live["metadata"]["uid"])


def _end(job: Manifest) -> str:
    """`Complete` or `Failed`; empty for a Job that is not over."""
    ends = [item["type"] for item in objects(mapping(job, "status"), "conditions") if item.get("status") == "True"]
    return next((end for end in ends if end in ("Complete", "Failed")), "")


async def _pod(cluster: KubeCluster, job: Manifest) -> Manifest | None:
    """The newest pod of a Job."""
    meta = job["metadata"]
    pods = await listed(cluster, POD, meta["namespace"], f"{JOB_NAME_LABEL}={meta['name']}")
    return max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)


async def _log(api: Api, pod: Manifest) -> str:
    """The log of a pod; empty if there is none yet, or if it must not be read."""
    try:
        return await api.text(f"{Ref.of(pod).path}/log", POD, query={})
    except ClusterError:
        return ""


def _statuses(pod: Manifest | None) -> list[Manifest]:
    return list(objects(mapping(pod or {}, "status"), "containerStatuses"))


def _message(pod: Manifest | None) -> str:
    ended = (mapping(mapping(one, "state"), "terminated") for one in _statuses(pod))
    return next((str(one["message"]) for one in ended if one.get("message")), "")


def _waiting(pod: Manifest | None) -> str:
    """Why a pod does not run: it is not scheduled, or its container waits."""
    for item in objects(mapping(pod or {}, "status"), "conditions"):
        if item.get("type") == "PodScheduled" and item.get("status") == "False":
            return one_line(item.get("message") or item.get("reason"))
    waits = (mapping(mapping(one, "state"), "waiting") for one in _statuses(pod))
    found = next((one for one in waits if one and one.get("reason") != "ContainerCreating"), {})
    return " ".join(one_line(part) for part in (found.get("reason"), found.get("message")) if part)
