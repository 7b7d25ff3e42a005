"""What a pod tells about itself, and the kubelet's and scheduler's own words on why it does not run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest

TEMPLATE_ANNOTATION = "inference-operator.dev/template"
"""Hash of the pod template, in itself: tells the pods of a Deployment's template from those of an earlier one."""


@dataclass(frozen=True, slots=True)
class PodProblem:
    """Why a pod does not run."""

    reason: Reason
    cause: str


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod."""

    name: str
    component: str
    created: datetime | None
    ready: bool
    terminating: bool
    failed: bool
    """Whether it will never run again: evicted, or turned away by its node. Its ReplicaSet replaces it."""
    problem: PodProblem | None
    template: str | None = None
    """The hash of the template that it was made from."""


_WAITING: Mapping[str, Reason] = {
    "ImagePullBackOff": Reason.IMAGE_PULL_FAILED,
    "ErrImagePull": Reason.IMAGE_PULL_FAILED,
    "ErrImageNeverPull": Reason.IMAGE_PULL_FAILED,
    "InvalidImageName": Reason.IMAGE_PULL_FAILED,
    "ImageInspectError": Reason.IMAGE_PULL_FAILED,
    "CreateContainerConfigError": Reason.CONTAINER_CONFIG_ERROR,
    "CreateContainerError": Reason.CONTAINER_CONFIG_ERROR,
    "RunContainerError": Reason.CONTAINER_CONFIG_ERROR,
    "CrashLoopBackOff": Reason.CRASH_LOOP,
}
"""Reasons for which a container waits (Kubernetes 1.36, pkg/kubelet/images and pkg/kubelet/kuberuntime)."""

_CLAIM_WORDS = ("persistentvolumeclaim", "unbound immediate PersistentVolumeClaims")
"""The scheduler's words for a claim that no node can cure (Kubernetes 1.36,
pkg/scheduler/framework/plugins/volumebinding). A volume that only some nodes can reach is a matter of nodes."""

MAX_CAUSE_LENGTH = 1024
"""Kubelets may quote a whole log; a condition is for reading."""


def pod_view(pod: Manifest, *, component: str) -> PodView:
    """Read a pod."""
    meta, status = _mapping(pod, "metadata"), _mapping(pod, "status")
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in _list(status, "conditions"))
    return PodView(
        name=str(meta.get("name", "")),
        component=component,
        created=timestamp(meta.get("creationTimestamp")),
        ready=ready,
        terminating="deletionTimestamp" in meta,
        failed=status.get("phase") == "Failed",
        problem=None if ready else _problem(status),
        template=template_of(meta),
    )


def template_of(metadata: Manifest) -> str | None:
    """The hash that a pod, or a Deployment's template, carries in its annotations."""
    template = _mapping(metadata, "annotations").get(TEMPLATE_ANNOTATION)
    return template if isinstance(template, str) else None


def timestamp(text: object) -> datetime | None:
    """A Kubernetes time, or None.

    Examples:
        >>> timestamp("2026-01-02T03:04:05Z").isoformat()
        '2026-01-02T03:04:05+00:00'
    """
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _mapping(parent: Manifest, name: str) -> Manifest:
    part = parent.get(name)
    return part if isinstance(part, dict) else {}


def _list(parent: Manifest, name: str) -> Iterable[Manifest]:
    items = parent.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _problem(status: Manifest) -> PodProblem | None:
    if status.get("phase") == "Failed":
        said = (_sentence(status.get("reason")), _sentence(status.get("message")))
        return PodProblem(Reason.POD_REJECTED, ": ".join(part for part in said if part) or "it has failed")
    for container in (*_list(status, "initContainerStatuses"), *_list(status, "containerStatuses")):
        if problem := _container_problem(container):
            return problem
    for condition in _list(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return _unschedulable(_sentence(condition.get("message")).replace("not found. not found", "not found."))
    return None


def _container_problem(container: Manifest) -> PodProblem | None:
    state, last = _mapping(container, "state"), _mapping(container, "lastState")
    waiting = _mapping(state, "waiting")
    reason = _WAITING.get(str(waiting.get("reason")))
    if reason and reason is not Reason.CRASH_LOOP:
        return PodProblem(reason, _sentence(waiting.get("message")) or str(waiting.get("reason")))
    ended = _mapping(state, "terminated")
    if not ended and container.get("started") is not True:
        ended = _mapping(last, "terminated")
    return _end(container, ended) if reason or ended.get("exitCode") else None


def _end(container: Manifest, ended: Manifest) -> PodProblem:
    """How a container ended last: the same words while it waits, runs and ends again."""
    name, said = container.get("name"), _sentence(ended.get("message"))
    if ended.get("reason") == "OOMKilled":
        return PodProblem(Reason.OUT_OF_MEMORY, f"container `{name}` used more memory than its limit")
    cause = f"container `{name}` ended with exit code {ended.get('exitCode')}"
    return PodProblem(Reason.CRASH_LOOP, f"{cause}: {said}" if said else cause)


def _unschedulable(cause: str) -> PodProblem:
    by_volume = any(word in cause for word in _CLAIM_WORDS)
    return PodProblem(Reason.VOLUME_UNAVAILABLE if by_volume else Reason.UNSCHEDULABLE, cause)


def _sentence(text: object) -> str:
    """One line, bounded; what a log says last says most."""
    line = " ".join(str(text or "").split())
    return line if len(line) <= MAX_CAUSE_LENGTH else f"… {line[-MAX_CAUSE_LENGTH:]}"
