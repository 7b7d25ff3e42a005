"""How far a pod is that has not been ready yet, as far as its own status tells."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from inference_operator.manifest import Manifest
from inference_operator.observed.look import LogTail
from inference_operator.observed.raw import condition, mapping, objects, timestamp


class Stage(Enum):
    """What a pod waits for, in the order of a start."""

    QUEUE = auto()
    """To be admitted, before a scheduler looks at it (Kubernetes documentation, "Pod Scheduling Readiness")."""
    NODE = auto()
    """A node to be on."""
    SANDBOX = auto()
    """Its network and its volumes (the condition PodReadyToStartContainers: Kubernetes documentation, "Pod Lifecycle",
    pod network readiness); on a node before Kubernetes 1.36 its images too (kubernetes/kubernetes#134660)."""
    IMAGES = auto()
    """Its images, of the container and of a model in an image."""
    PROCESS = auto()
    """What runs in it, until that is ready."""


@dataclass(frozen=True, slots=True)
class Start:
    """A start that takes its course."""

    stage: Stage
    placed: datetime | None
    """When it got its node; None where it has none."""
    log: LogTail | None
    """Where its process tells more; None where it does not run, or has answered."""
    answered: bool = False
    """Whether its process has answered: it is about to be ready, or was and is no longer."""


def start_of(pod: Manifest, *, container: str) -> Start | None:
    """How far a pod is; None for one that ends.

    Args:
        pod: a pod that is not ready.
        container: the container that matters.
    """
    meta, status = mapping(pod, "metadata"), mapping(pod, "status")
    if "deletionTimestamp" in meta or status.get("phase") in ("Succeeded", "Failed"):
        return None
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("status") != "True":
        return Start(Stage.QUEUE if scheduled.get("reason") == "SchedulingGated" else Stage.NODE, None, None)
    placed = timestamp(scheduled.get("lastTransitionTime"))
    shown = next((c for c in objects(status, "containerStatuses") if c.get("name") == container), {})
    if "running" in mapping(shown, "state"):
        answered = shown.get("started") is True
        return Start(Stage.PROCESS, placed, None if answered else _log(meta, shown), answered)
    equipped = condition(status, "PodReadyToStartContainers").get("status") == "True"
    return Start(Stage.IMAGES if equipped else Stage.SANDBOX, placed, None)


def _log(meta: Manifest, container: Manifest) -> LogTail:
    restarts = container.get("restartCount")
    return LogTail(
        namespace=str(meta.get("namespace", "")),
        pod=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        container=str(container.get("name", "")),
        run=restarts if isinstance(restarts, int) else 0,
        previous=False,
        running=True,
    )
