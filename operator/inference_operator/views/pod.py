"""What a pod tells about itself, and the kubelet's and scheduler's own words on why it does not run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType

from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest
from inference_operator.views.lookups import LogLookup
from inference_operator.views.pod_startup import PodStartup, pod_startup
from inference_operator.views.raw import condition, mapping, objects, timestamp
from inference_operator.views.redact import redacted

TEMPLATE_HASH_ANNOTATION = "inference-operator.dev/template"
"""Hash of the pod template, in itself: tells the pods of a Deployment's template from those of an earlier one."""


@dataclass(frozen=True, slots=True)
class Terminated:
    """A container that ended with an error."""

    message: str
    """Its termination message, which the kubelet fills with the end of the log; empty if it has none."""
    log: LogLookup
    """Where it tells more."""
    ran: timedelta | None = None
    """For how long, where that is known."""


@dataclass(frozen=True, slots=True)
class PodProblem:
    """Why a pod does not run."""

    reason: Reason
    cause: str
    ended: Terminated | None = None
    """The container whose own words may tell the cause; None where none has run."""
    cure: str = ""
    """What to do, in a sentence, where that is more than what its reason says."""


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
    start: PodStartup | None = None
    """How far it is; None where it is ready or has a problem."""
    template: str | None = None
    """The hash of the template that it was made from."""
    uid: str = ""
    address: str = ""
    """Its IP address; empty until it has one."""
    last_words: str = ""
    """The termination message of its first container, whole, if the pod has ended; only programs of our own are
    believed what it says."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """The ports of its containers, by their names; of two with one name the first."""


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
    meta, status = mapping(pod, "metadata"), mapping(pod, "status")
    ready = condition(status, "Ready").get("status") == "True"
    problem = None if ready else _problem(pod, status)
    return PodView(
        name=str(meta.get("name", "")),
        component=component,
        created=timestamp(meta.get("creationTimestamp")),
        ready=ready,
        terminating="deletionTimestamp" in meta,
        failed=status.get("phase") == "Failed",
        problem=problem,
        start=None if ready or problem else pod_startup(pod, container=component),
        template=pod_template_hash(meta),
        uid=str(meta.get("uid", "")),
        address=str(status.get("podIP", "")),
        last_words=_last_words(status, component),
        ports=_ports(mapping(pod, "spec")),
    )


def _last_words(status: Manifest, component: str) -> str:
    """Of the container that the pod is there for, once it has ended: others, such as a mesh's proxy, may run on."""
    own = (one for one in objects(status, "containerStatuses") if one.get("name") == component)
    ended = (mapping(mapping(container, "state"), "terminated") for container in own)
    return next((str(one.get("message") or "") for one in ended), "")


def _ports(spec: Manifest) -> Mapping[str, int]:
    """The first of a name counts: sidecars come after what the operator makes."""
    ports = [port for container in objects(spec, "containers") for port in objects(container, "ports")]
    named = ((str(port.get("name", "")), port.get("containerPort")) for port in reversed(ports))
    return _shared(tuple((name, number) for name, number in named if isinstance(number, int)))


@lru_cache(maxsize=100)
def _shared(ports: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    """One for all pods that have the same, which nearly all do: it is half of what is kept of a pod."""
    return MappingProxyType(dict(ports))


def pod_template_hash(metadata: Manifest) -> str | None:
    """The hash that a pod, or a Deployment's template, carries in its annotations."""
    template = mapping(metadata, "annotations").get(TEMPLATE_HASH_ANNOTATION)
    return template if isinstance(template, str) else None


def _problem(pod: Manifest, status: Manifest) -> PodProblem | None:
    if status.get("phase") == "Failed":
        said = (one_line(status.get("reason")), one_line(status.get("message")))
        return PodProblem(Reason.POD_REJECTED, ": ".join(part for part in said if part) or "it has failed")
    for container in (*objects(status, "initContainerStatuses"), *objects(status, "containerStatuses")):
        if problem := _container_problem(pod, container):
            return problem
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("reason") == "Unschedulable":
        return _unschedulable(one_line(scheduled.get("message")).replace("not found. not found", "not found."))
    return None


def _container_problem(pod: Manifest, container: Manifest) -> PodProblem | None:
    state, last = mapping(container, "state"), mapping(container, "lastState")
    waiting = mapping(state, "waiting")
    reason = _WAITING.get(str(waiting.get("reason")))
    if reason and reason is not Reason.CRASH_LOOP:
        return PodProblem(reason, _pulled(one_line(waiting.get("message"))) or str(waiting.get("reason")))
    ended = mapping(state, "terminated")
    if not ended and container.get("started") is not True:
        ended = mapping(last, "terminated")
    return _end(pod, container, ended) if reason or ended.get("exitCode") else None


def _end(pod: Manifest, container: Manifest, ended: Manifest) -> PodProblem:
    """How a container ended last: the same words while it waits, runs and ends again."""
    name = container.get("name")
    if ended.get("reason") == "OOMKilled":
        limit = _memory_limit(pod, str(name))
        bound = f"its limit of {limit}" if limit else "its limit"
        return PodProblem(Reason.OUT_OF_MEMORY, f"container `{name}` used more memory than {bound}")
    cause = f"container `{name}` ended with exit code {ended.get('exitCode')}"
    said = redacted(str(ended.get("message") or "")).strip()
    begun, over = timestamp(ended.get("startedAt")), timestamp(ended.get("finishedAt"))
    ran = over - begun if begun and over else None
    return PodProblem(Reason.CRASH_LOOP, cause, Terminated(said, _log_of_end(mapping(pod, "metadata"), container), ran))


def _memory_limit(pod: Manifest, container: str) -> str:
    """The container's limit of memory, as it was asked for; empty where it has none."""
    spec = mapping(pod, "spec")
    named = (c for c in (*objects(spec, "initContainers"), *objects(spec, "containers")) if c.get("name") == container)
    return str(mapping(mapping(next(named, {}), "resources"), "limits").get("memory") or "")


_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*": (?:ErrImagePull: )?')
_TRANSPORT = re.compile(r"\brpc error: code = \w+ desc = ")


def _pulled(message: str) -> str:
    """The same words while an image is pulled and while the next attempt is awaited (kubelet 1.31 and later)."""
    return _TRANSPORT.sub("", _BACK_OFF.sub("", message))


def _log_of_end(meta: Manifest, container: Manifest) -> LogLookup:
    """The log of the run that ended last; the kubelet counts a restart when it begins the next run."""
    state, restarts = mapping(container, "state"), container.get("restartCount")
    run = restarts if isinstance(restarts, int) else 0
    return LogLookup(
        namespace=str(meta.get("namespace", "")),
        pod=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        container=str(container.get("name", "")),
        run=run - 1 if "running" in state else run,
        previous="terminated" not in state,
        running=False,
    )


def _unschedulable(cause: str) -> PodProblem:
    by_volume = any(word in cause for word in _CLAIM_WORDS)
    return PodProblem(Reason.VOLUME_UNAVAILABLE if by_volume else Reason.UNSCHEDULABLE, cause)


def one_line(text: object) -> str:
    """One line, bounded and without secrets; what a log says last says most."""
    line = " ".join(redacted(str(text or "")).split())
    return line if len(line) <= MAX_CAUSE_LENGTH else f"… {line[-MAX_CAUSE_LENGTH:]}"
