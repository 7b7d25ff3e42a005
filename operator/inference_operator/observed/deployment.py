"""What a Deployment tells about its pods."""

from dataclasses import dataclass

from inference_operator.manifest import Manifest


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

    @property
    def rolling(self) -> bool:
        """Whether pods of an earlier template are still there."""
        return self.exists and (not self.seen or self.updated < self.replicas)


def deployment_view(deployment: Manifest | None) -> DeploymentView:
    """Read a Deployment, or its absence."""
    if deployment is None:
        return DeploymentView()
    status = deployment.get("status") or {}
    observed, latest = status.get("observedGeneration", 0), deployment["metadata"].get("generation", 0)
    failures = (c for c in status.get("conditions") or () if c.get("type") == "ReplicaFailure")
    return DeploymentView(
        exists=True,
        seen=observed >= latest,
        wanted=(deployment.get("spec") or {}).get("replicas", 1),
        replicas=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("readyReplicas", 0),
        rejection=next((str(c.get("message", "")) for c in failures if c.get("status") == "True"), None),
    )
