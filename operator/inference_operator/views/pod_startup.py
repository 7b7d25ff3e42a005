"""The start of a pod's main container as far as its status shows it, and how the run before ended."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from inference_operator.manifest import Manifest
from inference_operator.views.lookups import LogLookup
from inference_operator.views.raw import condition, mapping, named, objects, timestamp


class StartupStage(Enum):
    """The steps that a starting pod waits for, in the order of a start."""

    QUEUE = auto()
    """Admission by a queue that gates its scheduling (Kubernetes documentation, "Pod Scheduling Readiness")."""
    NODE = auto()
    SANDBOX = auto()
    """Its network and its volumes (the condition PodReadyToStartContainers: Kubernetes documentation, "Pod Lifecycle",
    pod network readiness); on a node before Kubernetes 1.36 its images too (kubernetes/kubernetes#134660)."""
    IMAGES = auto()
    """The images of its containers and of image volumes."""
    PROCESS = auto()
    """Readiness of its running container."""


@dataclass(frozen=True, slots=True)
class PodStartup:
    """A start without a problem so far."""

    stage: StartupStage
    placed: datetime | None
    """Time of its scheduling; None before that."""
    log: LogLookup | None
    """Log of its container; None if the container does not run or has passed its startup probe."""
    answered: bool = False
    """Whether its container has passed its startup probe: the pod becomes ready soon, or was ready before."""


def pod_startup(pod: Manifest, *, container: str) -> PodStartup | None:
    """The progress of a pod's start; None for a pod that terminates."""
    meta, status = mapping(pod, "metadata"), mapping(pod, "status")
    if "deletionTimestamp" in meta or status.get("phase") in ("Succeeded", "Failed"):
        return None
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("status") != "True":
        return PodStartup(
            StartupStage.QUEUE if scheduled.get("reason") == "SchedulingGated" else StartupStage.NODE, None, None
        )
    placed = timestamp(scheduled.get("lastTransitionTime"))
    main = named(objects(status, "containerStatuses"), container)
    if "running" in mapping(main, "state"):
        answered = main.get("started") is True
        return PodStartup(StartupStage.PROCESS, placed, None if answered else container_log(meta, main), answered)
    has_sandbox = condition(status, "PodReadyToStartContainers").get("status") == "True"
    return PodStartup(StartupStage.IMAGES if has_sandbox else StartupStage.SANDBOX, placed, None)


def container_log(
    meta: Manifest, container: Manifest, *, runs_before: int = 0, previous: bool = False, running: bool = True
) -> LogLookup:
    """The log of a container's present run, or of one before, by the restarts in its status."""
    restarts = container.get("restartCount")
    return LogLookup(
        namespace=str(meta.get("namespace", "")),
        pod=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        container=str(container.get("name", "")),
        run=(restarts if isinstance(restarts, int) else 0) - runs_before,
        previous=previous,
        running=running,
    )


@dataclass(frozen=True, slots=True)
class StartupTimes:
    created: datetime
    placed: datetime
    running: datetime
    """When its main container started."""
    ready: datetime
    """When it became ready for the last time: of a pod that was never unready since, the end of its start."""


def startup_times(pod: Manifest, *, container: str) -> StartupTimes | None:
    """The times of a ready pod's start; None if one is missing, or if its container has been restarted."""
    status = mapping(pod, "status")
    main = named(objects(status, "containerStatuses"), container)
    times = (
        timestamp(mapping(pod, "metadata").get("creationTimestamp")),
        timestamp(condition(status, "PodScheduled").get("lastTransitionTime")),
        timestamp(mapping(main, "state", "running").get("startedAt")),
        timestamp(condition(status, "Ready").get("lastTransitionTime")),
    )
    created, placed, running, ready = times
    if main.get("restartCount") or not (created and placed and running and ready):
        return None
    return StartupTimes(created, placed, running, ready)


MAX_LINE_LENGTH = 256
"""Characters that are kept of a termination message: more than a sentence of a group's member has."""


@dataclass(frozen=True, slots=True)
class ContainerRestart:
    count: int
    """Its number: restarts of this pod's container so far."""
    exit_code: int | None
    out_of_memory: bool = False
    """Whether the kernel killed that run, because it used more memory than its limit."""
    message: str = ""
    """The first line of that run's termination message."""


def container_restart(container: Manifest) -> ContainerRestart | None:
    count = container.get("restartCount")
    if not isinstance(count, int) or count <= 0:
        return None
    ended = mapping(container, "lastState", "terminated")
    code, message = ended.get("exitCode"), str(ended.get("message") or "")
    return ContainerRestart(
        count,
        code if isinstance(code, int) else None,
        out_of_memory=ended.get("reason") == "OOMKilled",
        message=message.partition("\n")[0][:MAX_LINE_LENGTH],
    )
