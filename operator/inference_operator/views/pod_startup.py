"""How far a pod is that has not been ready yet, as far as its own status tells."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from inference_operator.manifest import Manifest
from inference_operator.views.lookups import LogLookup
from inference_operator.views.raw import condition, mapping, objects, timestamp


class StartupStage(Enum):
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
class PodStartup:
    """A start that takes its course."""

    stage: StartupStage
    placed: datetime | None
    """When it got its node; None where it has none."""
    log: LogLookup | None
    """Where its process tells more; None where it does not run, or has answered."""
    answered: bool = False
    """Whether its process has answered: it is about to be ready, or was and is no longer."""


def pod_startup(pod: Manifest, *, container: str) -> PodStartup | None:
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
        return PodStartup(
            StartupStage.QUEUE if scheduled.get("reason") == "SchedulingGated" else StartupStage.NODE, None, None
        )
    placed = timestamp(scheduled.get("lastTransitionTime"))
    shown = next((c for c in objects(status, "containerStatuses") if c.get("name") == container), {})
    if "running" in mapping(shown, "state"):
        answered = shown.get("started") is True
        return PodStartup(StartupStage.PROCESS, placed, None if answered else _log(meta, shown), answered)
    equipped = condition(status, "PodReadyToStartContainers").get("status") == "True"
    return PodStartup(StartupStage.IMAGES if equipped else StartupStage.SANDBOX, placed, None)


def _log(meta: Manifest, container: Manifest) -> LogLookup:
    restarts = container.get("restartCount")
    return LogLookup(
        namespace=str(meta.get("namespace", "")),
        pod=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        container=str(container.get("name", "")),
        run=restarts if isinstance(restarts, int) else 0,
        previous=False,
        running=True,
    )
