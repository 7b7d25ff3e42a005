"""What the pods of engines and routers share: the restricted profile and how volumes are written.

Profile: Kubernetes' Pod Security Standards, level restricted (documentation of 1.36).
"""

from inference_operator.manifest import Manifest

RESTRICTED_CONTAINER: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

STOP_MARGIN_SECONDS = 10
"""What a pod's grace period leaves between the planned stop and SIGKILL."""

UNANSWERED_GRACE_SECONDS = 10
"""What a container gets to end in that its kubelet gives up, instead of all of the pod's grace: what has answered
nothing for a minute or more finishes no request, and what never started has none. Its preStop may take it all; the
kubelet then gives SIGTERM two seconds more (Kubernetes 1.36, kuberuntime_container.go)."""


def restricted_pod(*, user: int, group: int) -> Manifest:
    """Security context of a pod that runs as one user without any privilege."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": group,
        "fsGroup": group,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def http_probe(path: str, *, period: int, timeout: int, failures: int, port: str = "http") -> Manifest:
    """A probe of a named port of the container; all times in seconds."""
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


def fatal(probe: Manifest) -> Manifest:
    """A probe at whose failure the kubelet ends the container."""
    return {**probe, "terminationGracePeriodSeconds": UNANSWERED_GRACE_SECONDS}
