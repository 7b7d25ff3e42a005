"""View of a workload: the controller objects that create a role's pods.

- Engines of one pod each come from one Deployment.
- An engine over several nodes is a group of pods, which come from one StatefulSet. A role has one for each engine.
- While a role changes from one to the other, it has both. The newest object has the role's records.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from inference_operator.manifest import DEPLOYMENT, STATEFUL_SET, Kind, Manifest
from inference_operator.views.pod import pod_template_hash
from inference_operator.views.raw import annotations, mapping, objects, timestamp
from inference_operator.views.untrusted_text import one_line

_DEADLINE_EXCEEDED = ("False", "ProgressDeadlineExceeded")
"""Condition Progressing of a Deployment (Kubernetes 1.36, pkg/controller/deployment/util/deployment_util.go)."""

DEFAULT_PROGRESS_DEADLINE = timedelta(seconds=600)
"""Default of `progressDeadlineSeconds` (Kubernetes 1.36, API reference)."""


ENGINES_ANNOTATION = "inference-operator.dev/engines"
"""Annotation of a group's StatefulSet with the number of engines that its role should have. A Deployment has it in
`replicas`."""

PROGRESS_DEADLINE_ANNOTATION = "inference-operator.dev/progress-deadline-seconds"
"""Annotation of a group's StatefulSet with the time that a Deployment has in `progressDeadlineSeconds`."""


TEMPORARY_ANNOTATION = "inference-operator.dev/temporary-engines"
"""Annotation of a Deployment: how many of its `replicas` are there only while pods move to other nodes, as `1/3`. If
somebody else writes `spec.replicas`, the second number differs, and none counts as temporary."""


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """The workload of a role or of the routers; all zero while it does not exist."""

    exists: bool = False
    observed: bool = False
    """Whether its controller has seen the latest specification."""
    desired: int = 0
    """Engines or pods that it should have, those left out that are there only for a time."""
    temporary: int = 0
    """Engines that it should have beside those, while others move to other nodes."""
    replicas: int = 0
    """Engines or pods that exist, of any template."""
    updated: int = 0
    """Those of the latest template."""
    ready: int = 0
    rejection: str = ""
    """Why pods cannot be created, in the API server's words."""
    rejected_since: datetime | None = None
    deadline_exceeded: bool = False
    """Whether its controller reports no progress within the progress deadline. That of groups measures none."""
    deadline: timedelta = DEFAULT_PROGRESS_DEADLINE
    template: str | None = None
    pod_spec: Manifest | None = None
    """The pod specification of its template; None while it does not exist."""
    startup: timedelta = timedelta(0)
    """How long the startup probe of its first container may fail; zero without a startup probe."""

    @property
    def rolling(self) -> bool:
        return self.exists and (not self.observed or self.updated < self.replicas)

    @property
    def failed(self) -> bool:
        """Whether its controller has given up on a first start or a rollout."""
        return self.deadline_exceeded and self.desired > 0 and (self.rolling or self.ready == 0)


def workload_view(manifest: Manifest | None) -> WorkloadView:
    if manifest is None:
        return WorkloadView()
    return _READERS[manifest.get("kind", DEPLOYMENT.name)](manifest)


def newest_first(workloads: Iterable[Manifest]) -> Sequence[Manifest]:
    """The workloads of a role, the newest first: it has the role's records."""

    def age(workload: Manifest) -> tuple[str, str]:
        meta = workload["metadata"]
        return str(meta.get("creationTimestamp", "")), meta["name"]

    return sorted(workloads, key=age, reverse=True)


def role_view(workloads: Sequence[Manifest]) -> WorkloadView:
    """The view of all workloads of a role, newest first: numbers are added, and the rest is that of the newest."""
    views = [workload_view(workload) for workload in workloads]
    if len(views) <= 1:
        return views[0] if views else WorkloadView()
    newest = views[0]
    latest = [view for view in views if view.template == newest.template]
    return replace(
        newest,
        observed=all(view.observed for view in views),
        replicas=sum(view.replicas for view in views),
        updated=sum(view.updated for view in latest),
        ready=sum(view.ready for view in views),
        rejection=next((view.rejection for view in views if view.rejection), ""),
    )


def combined(workloads: Sequence[WorkloadView]) -> WorkloadView:
    """Several roles as one: numbers are added, and it is ready only where every role has a ready pod.

    They have neither one template nor one pod specification.
    """
    if len(workloads) == 1:
        return workloads[0]
    return WorkloadView(
        exists=all(workload.exists for workload in workloads),
        observed=all(workload.observed for workload in workloads),
        desired=sum(workload.desired for workload in workloads),
        replicas=sum(workload.replicas for workload in workloads),
        updated=sum(workload.updated for workload in workloads),
        ready=0 if any(map(_serves_nothing, workloads)) else sum(workload.ready for workload in workloads),
        rejection=next((workload.rejection for workload in workloads if workload.rejection), ""),
        deadline_exceeded=any(workload.failed for workload in workloads),
        deadline=max((workload.deadline for workload in workloads), default=DEFAULT_PROGRESS_DEADLINE),
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
    deadline, pods = spec.get("progressDeadlineSeconds"), spec.get("replicas", 1)
    temporary, of = map(_number, (annotations(deployment).get(TEMPORARY_ANNOTATION) or "").partition("/")[::2])
    if of != pods or (temporary or 0) > pods:  # somebody else has written a number: it has no temporary engines
        temporary = 0
    return WorkloadView(
        exists=True,
        observed=observed >= latest,
        desired=pods - (temporary or 0),
        temporary=temporary or 0,
        replicas=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("readyReplicas", 0),
        rejection=one_line(failure.get("message")) if failure.get("status") == "True" else "",
        rejected_since=timestamp(failure.get("lastTransitionTime")),
        deadline_exceeded=observed >= latest and (progress.get("status"), progress.get("reason")) == _DEADLINE_EXCEEDED,
        deadline=DEFAULT_PROGRESS_DEADLINE if deadline is None else timedelta(seconds=deadline),
        template=pod_template_hash(mapping(template, "metadata")),
        pod_spec=pod_spec,
        startup=_startup(pod_spec),
    )


def _group(group: Manifest) -> WorkloadView:
    """The view of the StatefulSet of a group: its engine is ready while all of its pods are."""
    status, spec = mapping(group, "status"), mapping(group, "spec")
    template, noted = mapping(spec, "template"), annotations(group)
    size, running = spec.get("replicas", 1), int(status.get("replicas", 0) > 0)
    deadline = _number(noted.get(PROGRESS_DEADLINE_ANNOTATION))
    return WorkloadView(
        exists=True,
        observed=status.get("observedGeneration", 0) >= group["metadata"].get("generation", 0),
        desired=_number(noted.get(ENGINES_ANNOTATION)) or 0,
        replicas=running,
        updated=running,
        ready=int(bool(size) and status.get("readyReplicas", 0) >= size),
        deadline=DEFAULT_PROGRESS_DEADLINE if deadline is None else timedelta(seconds=deadline),
        template=pod_template_hash(mapping(template, "metadata")),
        pod_spec=mapping(template, "spec"),
    )


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and re.fullmatch(r"[0-9]{1,9}", text) else None


def _startup(pod_spec: Manifest) -> timedelta:
    container: Manifest = next(iter(objects(pod_spec, "containers")), {})
    probe = mapping(container, "startupProbe")
    return timedelta(seconds=probe.get("periodSeconds", 0) * probe.get("failureThreshold", 0))


_READERS: Mapping[str, Callable[[Manifest], WorkloadView]] = {DEPLOYMENT.name: _deployment, STATEFUL_SET.name: _group}

WORKLOAD_KINDS: Sequence[Kind] = (DEPLOYMENT, STATEFUL_SET)
