"""View of a pod, with the kubelet's or scheduler's message on why it does not run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType

from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest
from inference_operator.views.lookups import LogLookup
from inference_operator.views.pod_startup import (
    ContainerRestart,
    PodStartup,
    StartupTimes,
    container_log,
    container_restart,
    pod_startup,
    startup_times,
)
from inference_operator.views.raw import condition, mapping, named, objects, timestamp
from inference_operator.views.start_cures import missing_object_cure, node_cure
from inference_operator.views.untrusted_text import one_line, termination_message

TEMPLATE_HASH_ANNOTATION = "inference-operator.dev/template"
"""Annotation with the hash of the pod template; it separates current pods from those of an earlier template."""

TRAFFIC_LABEL = "inference-operator.dev/traffic"
"""Label that the engines' Service selects, beside those that never change: `true` on an engine that gets new requests.
Engines have it from their pod template. It is no part of the Deployment's selector, so its value can change."""

ENGINE_LABEL = "inference-operator.dev/engine"
"""Label with the name of the engine in the registry. A pod without it runs vLLM."""
GROUP_LABEL = "inference-operator.dev/group"
"""Label with the name of the group of pods that are one engine. A pod without it is an engine of its own."""

POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
"""Label with a pod's ordinal, which the StatefulSet controller sets (Kubernetes 1.36, `PodIndexLabel`)."""

ADAPTERS_PORT = "adapters"
"""Name of the port on which an engine's pod tells its adapters, and of the container that loads them."""

ENGINE_KEY_ANNOTATION = "inference-operator.dev/engine-key"
"""Name of the Secret with the key that an engine asks for, or that a router sends to engines."""

ADAPTERS_ANNOTATION = "inference-operator.dev/adapters"
"""Annotation with the hash of the list of adapters that the pod should have. Its change makes the kubelet bring it."""

DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
"""Of several pods, a ReplicaSet deletes the one with the lowest value first (Kubernetes 1.36, `PodDeletionCost`)."""


@dataclass(frozen=True, slots=True)
class Terminated:
    """A container that terminated with an error."""

    message: str
    """Its termination message, which the kubelet fills with the end of the log; empty without one."""
    log: LogLookup
    ran: timedelta | None = None
    """Run time; None if unknown."""


@dataclass(frozen=True, slots=True)
class PodProblem:
    reason: Reason
    cause: str
    terminated: Terminated | None = None
    """The container whose output may show the cause; None if no container has run."""
    cure: str = ""
    """The cure, in a sentence; empty if the explanation of the reason suffices."""
    from_runtime: bool = False
    """Whether the cause is the container runtime's message, which quotes the hooks of GPU drivers."""


@dataclass(frozen=True, slots=True)
class PodView:
    name: str
    component: str
    created: datetime | None
    ready: bool
    terminating: bool
    failed: bool
    """Whether its phase is Failed, for example after an eviction. Its ReplicaSet replaces it."""
    problem: PodProblem | None
    start: PodStartup | None = None
    """Progress of its start; None if it is ready or has a problem."""
    template: str | None = None
    """Hash of the template that it was created from."""
    uid: str = ""
    address: str = ""
    """Its IP address; empty until it has one."""
    termination_message: str = ""
    """The whole termination message of its main container, once that has terminated. Trusted only from the
    operator's own programs."""
    node: str = ""
    """The node that it was scheduled to; empty before that."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Container ports by name; of two with the same name the first."""
    startup_times: StartupTimes | None = None
    traffic: bool = True
    """Whether its traffic label is `true`, so that an engine gets new requests."""
    ready_since: datetime | None = None
    deletion_cost: int = 0
    """The value of its annotation by which a ReplicaSet chooses the pod to delete."""
    adapters: str = ""
    """Hash of the list of adapters that it was told to have; empty if it was told none."""
    engine: str = ""
    """Name of the engine that it runs; empty for vLLM."""
    group: str = ""
    """Name of the group of pods that are one engine; empty on a pod that is an engine of its own."""
    index: int = 0
    """Its ordinal within the group. The pod with 0 is the leader, which serves requests."""
    ends_by: datetime | None = None
    """End of its grace period; None while it is not being deleted."""
    running: bool = False
    restart: ContainerRestart | None = None
    engine_key: str = ""
    """Name of the Secret with the key that an engine asks for, or that a router sends to engines; empty: no key."""
    has_served: bool = False
    """Whether it is ready, or has been before."""
    restarts: int = 0
    """Restarts of all of its containers, in place."""
    admitted: bool = False
    """Whether its kubelet has admitted it, and so reports its containers."""

    @property
    def is_serving(self) -> bool:
        return self.ready and not self.terminating

    @property
    def rejected(self) -> bool:
        """Whether its kubelet has rejected it: no container starts (Kubernetes 1.36, pkg/kubelet, rejectPod)."""
        return self.failed and not self.admitted


def has_answered(pod: PodView) -> bool:
    """Whether an engine is ready, or is too busy to answer its readiness probe now."""
    return not pod.terminating and (pod.ready or (pod.start is not None and pod.start.answered))


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
"""Reasons of waiting containers that are problems (Kubernetes 1.36, pkg/kubelet/images and pkg/kubelet/kuberuntime)."""

_CLAIM_MESSAGES = ("persistentvolumeclaim", "unbound immediate PersistentVolumeClaims")
"""Parts of the scheduler's messages about a claim that no other node would solve (Kubernetes 1.36,
pkg/scheduler/framework/plugins/volumebinding). A volume that only some nodes can reach counts as unschedulable."""

_DISK_FULL = re.compile(
    r"low on resource: (?:ephemeral-storage|inodes)|ephemeral local storage usage exceeds|local ephemeral storage limit"
    r"|Usage of EmptyDir volume|\[DiskPressure\]"
)
"""Parts of the kubelet's messages about a pod that it evicts or rejects for its use of disks (Kubernetes 1.36,
pkg/kubelet/eviction/helpers.go and eviction_manager.go)."""


def pod_view(pod: Manifest, *, component: str) -> PodView:
    meta, status = mapping(pod, "metadata"), mapping(pod, "status")
    ready = condition(status, "Ready").get("status") == "True"
    problem = None if ready else _problem(pod, status)
    group = str(mapping(meta, "labels").get(GROUP_LABEL, ""))  # without it, an index means nothing
    main = named(objects(status, "containerStatuses"), component)  # others, such as a mesh's proxy, may still run
    terminated = mapping(main, "state", "terminated")
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
        termination_message=str(terminated.get("message") or ""),
        node=str(mapping(pod, "spec").get("nodeName", "")),
        ports=_ports(mapping(pod, "spec")),
        startup_times=startup_times(pod, container=component) if ready else None,
        traffic=mapping(meta, "labels").get(TRAFFIC_LABEL) == "true",
        ready_since=timestamp(condition(status, "Ready").get("lastTransitionTime")) if ready else None,
        deletion_cost=_deletion_cost(meta),
        adapters=str(mapping(meta, "annotations").get(ADAPTERS_ANNOTATION, "")),
        engine=str(mapping(meta, "labels").get(ENGINE_LABEL, "")),
        group=group,
        index=_index(meta) if group else 0,
        ends_by=timestamp(meta.get("deletionTimestamp")),
        running="running" in mapping(main, "state"),
        restart=container_restart(main),
        engine_key=str(mapping(meta, "annotations").get(ENGINE_KEY_ANNOTATION, "")),
        has_served=has_been_ready(pod),
        restarts=_restarts(status),
        admitted=_is_admitted(status),
    )


def _restarts(status: Manifest) -> int:
    counts = (container.get("restartCount") for container in objects(status, "containerStatuses"))
    return sum(count for count in counts if isinstance(count, int))


def _is_admitted(status: Manifest) -> bool:
    return bool(status.get("containerStatuses") or status.get("initContainerStatuses"))


def has_been_ready(pod: Manifest) -> bool:
    """Whether a pod is ready or was before: then Ready became false after the pod was initialized."""
    ready, initialized = (condition(mapping(pod, "status"), kind) for kind in ("Ready", "Initialized"))
    since, begin = timestamp(ready.get("lastTransitionTime")), timestamp(initialized.get("lastTransitionTime"))
    return ready.get("status") == "True" or (since is not None and begin is not None and since > begin)


def _index(metadata: Manifest) -> int:
    value = str(mapping(metadata, "labels").get(POD_INDEX_LABEL, ""))
    return int(value) if re.fullmatch(r"[0-9]{1,10}", value) else 0


def _deletion_cost(metadata: Manifest) -> int:
    value = str(mapping(metadata, "annotations").get(DELETION_COST_ANNOTATION, ""))
    return int(value) if re.fullmatch(r"-?[0-9]{1,10}", value) else 0


def _ports(spec: Manifest) -> Mapping[str, int]:
    """The first port of a name counts, because the operator's containers precede those that others add."""
    ports = [port for container in objects(spec, "containers") for port in objects(container, "ports")]
    pairs = ((str(port.get("name", "")), port.get("containerPort")) for port in reversed(ports))
    return _shared(tuple((name, number) for name, number in pairs if isinstance(number, int)))


@lru_cache(maxsize=100)
def _shared(ports: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    """One mapping for all pods with equal ports. Nearly all pods have them, and they are half of a view's memory."""
    return MappingProxyType(dict(ports))


def pod_template_hash(metadata: Manifest) -> str | None:
    template = mapping(metadata, "annotations").get(TEMPLATE_HASH_ANNOTATION)
    return template if isinstance(template, str) else None


def _problem(pod: Manifest, status: Manifest) -> PodProblem | None:
    if status.get("phase") == "Failed":
        if not status.get("reason") and (ended := _failed_container(pod, status)):
            return ended
        parts = (one_line(status.get("reason")), one_line(status.get("message")))
        cause = ": ".join(part for part in parts if part) or "it has failed"
        reason = Reason.DISK_FULL if _DISK_FULL.search(cause) else Reason.POD_REJECTED
        is_rejected = reason is Reason.POD_REJECTED and not _is_admitted(status)
        cure = node_cure(cause, str(mapping(pod, "spec").get("nodeName", ""))) if is_rejected else ""
        return PodProblem(reason, cause, cure=cure)
    for container in (*objects(status, "initContainerStatuses"), *objects(status, "containerStatuses")):
        if problem := _container_problem(pod, container):
            return problem
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("reason") == "Unschedulable":
        cause = one_line(scheduled.get("message")).replace("not found. not found", "not found.")
        is_of_claim = any(message in cause for message in _CLAIM_MESSAGES)
        return PodProblem(Reason.VOLUME_UNAVAILABLE if is_of_claim else Reason.UNSCHEDULABLE, cause)
    return None


def _failed_container(pod: Manifest, status: Manifest) -> PodProblem | None:
    """The error that ended a pod which is not started again, such as a Job's; None if the pod itself failed."""
    containers = (*objects(status, "initContainerStatuses"), *objects(status, "containerStatuses"))
    every = ((container, mapping(container, "state", "terminated")) for container in containers)
    return next((_termination(pod, container, ended) for container, ended in every if ended.get("exitCode")), None)


def _container_problem(pod: Manifest, container: Manifest) -> PodProblem | None:
    state, last = mapping(container, "state"), mapping(container, "lastState")
    waiting = mapping(state, "waiting")
    reason = _WAITING.get(str(waiting.get("reason")))
    if reason and reason is not Reason.CRASH_LOOP:
        message = one_line(waiting.get("message"))
        # The same during a pull and during the back-off (kubelet 1.31 and later).
        cause = _TRANSPORT.sub("", _BACK_OFF.sub("", message)) or str(waiting.get("reason"))
        is_config = reason is Reason.CONTAINER_CONFIG_ERROR
        cure = missing_object_cure(pod, str(container.get("name")), cause) if is_config else ""
        return PodProblem(reason, cause, cure=cure, from_runtime=is_config)
    terminated = mapping(state, "terminated")
    if not terminated and container.get("started") is not True:
        terminated = mapping(last, "terminated")
    return _termination(pod, container, terminated) if reason or terminated.get("exitCode") else None


def _termination(pod: Manifest, container: Manifest, terminated: Manifest) -> PodProblem:
    """The last termination of a container; the same while it waits, runs and terminates again."""
    name = container.get("name")
    if terminated.get("reason") == "OOMKilled":
        limit = _memory_limit(pod, str(name))
        bound = f"its limit of {limit}" if limit else "its limit"
        return PodProblem(Reason.OUT_OF_MEMORY, f"container `{name}` used more memory than {bound}")
    code = terminated.get("exitCode")
    cause = f"container `{name}` ended with exit code {code}{' (SIGKILL)' if code == _SIGKILL else ''}"
    message = termination_message(str(terminated.get("message") or ""))
    started, finished = timestamp(terminated.get("startedAt")), timestamp(terminated.get("finishedAt"))
    ran = finished - started if started and finished else None
    meta, state = mapping(pod, "metadata"), mapping(container, "state")
    # The kubelet counts a restart when it starts the next run.
    before, previous = "running" in state, "terminated" not in state
    log = container_log(meta, container, runs_before=before, previous=previous, running=False)
    return PodProblem(Reason.CRASH_LOOP, cause, Terminated(message, log, ran))


def _memory_limit(pod: Manifest, container: str) -> str:
    spec = mapping(pod, "spec")
    own = named((*objects(spec, "initContainers"), *objects(spec, "containers")), container)
    return str(mapping(own, "resources", "limits").get("memory") or "")


_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*": (?:ErrImagePull: )?')
_SIGKILL = 137
"""The exit code of a container that was killed: 128 and the number of the signal."""
_TRANSPORT = re.compile(r"\brpc error: code = \w+ desc = ")
