"""Parts of every pod: security context, probes, and the pod template with its hash.

The security context follows Kubernetes' Pod Security Standards, level restricted (documentation of 1.36).
"""

from collections.abc import Mapping, Sequence

from inference_operator.api.pod_template import PodTemplateSpec
from inference_operator.manifest import Manifest
from inference_operator.objects.child import manifest_hash
from inference_operator.settings import PodUsers
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION

DEFAULT_ACCOUNT = "default"
"""The ServiceAccount that Kubernetes gives to pods without another one."""

RESTRICTED_CONTAINER: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

MEMORY_LOCK = "IPC_LOCK"
"""The capability to lock memory, which RDMA needs where the container runtime limits locked memory. The only one that a
container of the operator can have; the levels baseline and restricted refuse it."""

EVICTABLE_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

STOP_MARGIN_SECONDS = 10
"""Seconds of a pod's grace period between the planned stop and SIGKILL."""

UNANSWERED_GRACE_SECONDS = 10
"""Grace period of a container that the kubelet ends because a probe failed, instead of the pod's own. Such a container
finishes no request: it has not answered for a minute or more, or never started. Its preStop hook may use all of it; the
kubelet then gives SIGTERM two seconds more (Kubernetes 1.36, kuberuntime_container.go)."""


def restricted_pod(users: PodUsers, *, user: int, group: int) -> Manifest:
    """Security context of a pod that runs as one user without any privilege.

    User and group, which is that of the volumes too, are these unless the platform chooses them.
    """
    chosen = {"runAsUser": user, "runAsGroup": group, "fsGroup": group} if users is PodUsers.FIXED else {}
    return {
        "runAsNonRoot": True,
        **chosen,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def with_memory_lock(container: Manifest) -> Manifest:
    return {**container, "capabilities": {**container["capabilities"], "add": [MEMORY_LOCK]}}


def account(added: PodTemplateSpec) -> Manifest:
    """The ServiceAccount and the pull Secrets of a pod.

    The account is always written: the API server keeps a copy of it in the field `serviceAccount`, from which it would
    restore one that an apply leaves out (Kubernetes 1.36, pkg/apis/core/v1/conversion.go).
    """
    named = {"serviceAccountName": added.service_account_name or DEFAULT_ACCOUNT}
    secrets = [{"name": secret.name} for secret in added.image_pull_secrets]
    return {**named, **({"imagePullSecrets": secrets} if secrets else {})}


def evictable(volumes: Sequence[Manifest]) -> dict[str, str]:
    """The annotation by which cluster-autoscaler may remove the node of a pod although it has these local volumes.

    They hold caches, sockets and temporary files. Without it, an emptyDir volume keeps the node (kubernetes/autoscaler,
    cluster-autoscaler/utils/drain/drain.go; older versions count volumes in memory too).
    """
    return {EVICTABLE_ANNOTATION: ",".join(volume["name"] for volume in volumes if "emptyDir" in volume)}


def http_probe(path: str, *, period: int, timeout: int, failures: int, port: str | int = "http") -> Manifest:
    """A probe of a port of the pod, or of a named port of the container; all times in seconds."""
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


def fatal(probe: Manifest) -> Manifest:
    """A probe whose failure makes the kubelet restart the container."""
    return {**probe, "terminationGracePeriodSeconds": UNANSWERED_GRACE_SECONDS}


def pod_template(
    spec: Manifest,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    added_labels: Mapping[str, str] | None = None,
) -> Manifest:
    """A pod template with its own hash, which so reaches its pods; the selected labels are no part of the hash."""
    requested, added = dict(annotations or {}), dict(added_labels or {})
    template_hash = manifest_hash([spec, {**requested, **added}])
    return {
        "metadata": {
            "labels": {**added, **labels},
            "annotations": {**requested, TEMPLATE_HASH_ANNOTATION: template_hash},
        },
        "spec": spec,
    }
