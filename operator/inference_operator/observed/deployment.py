"""What a Deployment tells about its pods."""

from dataclasses import dataclass
from datetime import timedelta

from inference_operator.manifest import Manifest
from inference_operator.observed.pod import template_of

_OVERDUE = ("False", "ProgressDeadlineExceeded")
"""Condition Progressing of a Deployment (Kubernetes 1.36, pkg/controller/deployment/util/deployment_util.go)."""


KUBERNETES_DEADLINE = timedelta(seconds=600)
"""Where a Deployment says nothing (Kubernetes 1.36, API reference, `progressDeadlineSeconds`)."""


@dataclass(frozen=True, slots=True)
class DeploymentView:
    """One Deployment; all zero while there is none."""

    exists: bool = False
    seen: bool = False
    """Whether the Deployment's controller has looked at its latest specification."""
    wanted: int = 0
    """Pods that it is asked for."""
    replicas: int = 0
    """Pods that there are, of whatever template."""
    updated: int = 0
    ready: int = 0
    rejection: str | None = None
    """Why pods cannot be created, in the API server's words."""
    overdue: bool = False
    """Whether `progressDeadlineSeconds` have passed since the last progress, as its controller says."""
    deadline: timedelta = KUBERNETES_DEADLINE
    """How long it may make no progress."""
    template: str | None = None
    """The hash of its template; None where it has none."""
    startup: timedelta = timedelta(0)
    """How long its first container may take until it answers; zero where nobody asks it."""

    @property
    def rolling(self) -> bool:
        """Whether pods of an earlier template are still there."""
        return self.exists and (not self.seen or self.updated < self.replicas)

    @property
    def given_up(self) -> bool:
        """Whether its controller has given up on a first start or a rollout."""
        return self.overdue and self.wanted > 0 and (self.rolling or self.ready == 0)


def deployment_view(deployment: Manifest | None) -> DeploymentView:
    """Read a Deployment, or its absence."""
    if deployment is None:
        return DeploymentView()
    status = deployment.get("status") or {}
    observed, latest = status.get("observedGeneration", 0), deployment["metadata"].get("generation", 0)
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    failure, progress = conditions.get("ReplicaFailure") or {}, conditions.get("Progressing") or {}
    spec = deployment.get("spec") or {}
    return DeploymentView(
        exists=True,
        seen=observed >= latest,
        wanted=spec.get("replicas", 1),
        replicas=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("readyReplicas", 0),
        rejection=str(failure.get("message", "")) if failure.get("status") == "True" else None,
        overdue=observed >= latest and (progress.get("status"), progress.get("reason")) == _OVERDUE,
        deadline=timedelta(seconds=spec["progressDeadlineSeconds"])
        if "progressDeadlineSeconds" in spec
        else KUBERNETES_DEADLINE,
        template=template_of((spec.get("template") or {}).get("metadata") or {}),
        startup=_startup((spec.get("template") or {}).get("spec") or {}),
    )


def _startup(pod: Manifest) -> timedelta:
    container: Manifest = next(iter(pod.get("containers") or ()), {})
    probe = container.get("startupProbe") or {}
    return timedelta(seconds=probe.get("periodSeconds", 0) * probe.get("failureThreshold", 0))
