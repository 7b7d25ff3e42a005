"""View of a workload: the controller object that creates a role's pods. Today that is a Deployment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from inference_operator.manifest import DEPLOYMENT, Kind, Manifest
from inference_operator.views.pod import pod_template_hash
from inference_operator.views.raw import mapping, objects

_DEADLINE_EXCEEDED = ("False", "ProgressDeadlineExceeded")
"""Condition Progressing of a Deployment (Kubernetes 1.36, pkg/controller/deployment/util/deployment_util.go)."""

DEFAULT_PROGRESS_DEADLINE = timedelta(seconds=600)
"""Default of `progressDeadlineSeconds` (Kubernetes 1.36, API reference)."""


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """One workload; all zero while it does not exist."""

    exists: bool = False
    observed: bool = False
    """Whether its controller has seen the latest specification."""
    desired: int = 0
    """Pods that it should have."""
    replicas: int = 0
    """Pods that exist, of any template."""
    updated: int = 0
    """Pods of the latest template."""
    ready: int = 0
    rejection: str = ""
    """Why pods cannot be created, in the API server's words."""
    deadline_exceeded: bool = False
    """Whether its controller reports no progress within the progress deadline."""
    deadline: timedelta = DEFAULT_PROGRESS_DEADLINE
    """The progress deadline."""
    template: str | None = None
    """The hash of its pod template; None where it has none."""
    pod_spec: Manifest | None = None
    """The pod specification of its template; None while it does not exist."""
    startup: timedelta = timedelta(0)
    """How long the startup probe of its first container may fail; zero without a startup probe."""

    @property
    def rolling(self) -> bool:
        """Whether pods of an earlier template still exist."""
        return self.exists and (not self.observed or self.updated < self.replicas)

    @property
    def failed(self) -> bool:
        """Whether its controller has given up on a first start or a rollout."""
        return self.deadline_exceeded and self.desired > 0 and (self.rolling or self.ready == 0)


def workload_view(manifest: Manifest | None) -> WorkloadView:
    """The view of a workload of any kind, or of its absence."""
    if manifest is None:
        return WorkloadView()
    return _READERS[manifest.get("kind", DEPLOYMENT.name)](manifest)


def combined(workloads: Sequence[WorkloadView]) -> WorkloadView:
    """Several roles as one: numbers are added, and it is ready only where every role has a ready pod.

    Examples:
        >>> prefill = WorkloadView(exists=True, observed=True, desired=2, replicas=2, updated=2, ready=2)
        >>> decode = WorkloadView(exists=True, observed=True, desired=1, replicas=1, updated=1)
        >>> both = combined([prefill, decode])
        >>> both.desired, both.replicas, both.ready
        (3, 3, 0)
    """
    if len(workloads) == 1:
        return workloads[0]
    return WorkloadView(
        exists=all(one.exists for one in workloads),
        observed=all(one.observed for one in workloads),
        desired=sum(one.desired for one in workloads),
        replicas=sum(one.replicas for one in workloads),
        updated=sum(one.updated for one in workloads),
        ready=0 if any(_serves_nothing(one) for one in workloads) else sum(one.ready for one in workloads),
        rejection=next((one.rejection for one in workloads if one.rejection), ""),
        deadline_exceeded=any(one.failed for one in workloads),
        deadline=max((one.deadline for one in workloads), default=DEFAULT_PROGRESS_DEADLINE),
        template=workloads[0].template if workloads else None,
        pod_spec=workloads[0].pod_spec if workloads else None,
        startup=max((workload.startup for workload in workloads), default=timedelta(0)),
    )


def _serves_nothing(workload: WorkloadView) -> bool:
    """Whether a role that should serve does not; a workload that does not exist yet has no desired pods."""
    return not workload.exists or (workload.desired > 0 and workload.ready == 0)


def _deployment(deployment: Manifest) -> WorkloadView:
    status, spec = mapping(deployment, "status"), mapping(deployment, "spec")
    observed, latest = status.get("observedGeneration", 0), deployment["metadata"].get("generation", 0)
    conditions = {condition.get("type"): condition for condition in objects(status, "conditions")}
    failure, progress = conditions.get("ReplicaFailure") or {}, conditions.get("Progressing") or {}
    template = mapping(spec, "template")
    pod_spec = mapping(template, "spec")
    deadline = spec.get("progressDeadlineSeconds")
    return WorkloadView(
        exists=True,
        observed=observed >= latest,
        desired=spec.get("replicas", 1),
        replicas=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("readyReplicas", 0),
        rejection=str(failure.get("message", "")) if failure.get("status") == "True" else "",
        deadline_exceeded=observed >= latest and (progress.get("status"), progress.get("reason")) == _DEADLINE_EXCEEDED,
        deadline=DEFAULT_PROGRESS_DEADLINE if deadline is None else timedelta(seconds=deadline),
        template=pod_template_hash(mapping(template, "metadata")),
        pod_spec=pod_spec,
        startup=_startup(pod_spec),
    )


def _startup(pod_spec: Manifest) -> timedelta:
    container: Manifest = next(iter(objects(pod_spec, "containers")), {})
    probe = mapping(container, "startupProbe")
    return timedelta(seconds=probe.get("periodSeconds", 0) * probe.get("failureThreshold", 0))


_READERS: Mapping[str, Callable[[Manifest], WorkloadView]] = {DEPLOYMENT.name: _deployment}
"""How each kind of workload is read."""

WORKLOAD_KINDS: Sequence[Kind] = (DEPLOYMENT,)
"""The kinds of workload that roles can have."""
