"""Kueue's controller with its webhooks, and a queue with the GPUs of a pool."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.go_modules import ensure_kueue
from e2e.helpers.webhook_controller import WebhookController
from inference_operator.objects.network_policy import NAMESPACE_LABEL
from tests.testing.workspace import Workspace

GONE_SECONDS = 60
_WITH_CERTIFICATES = """
set -e
mount -t tmpfs none /etc
mkdir -p /etc/kueue/metrics
ln -s "$CERTIFICATES" /etc/kueue/metrics/certs
exec "$0" "$@"
"""
"""It takes the certificate of its metrics from this place alone (Kueue 0.17.0, `cmd/kueue/main.go`)."""


def kueue() -> WebhookController:
    """The controller with its webhooks, built if it is missing."""
    command, source = ensure_kueue()
    return WebhookController(
        name="kueue",
        command=["unshare", "--map-root-user", "--mount", "sh", "-c", _WITH_CERTIFICATES, str(command)],
        configuration={
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "featureGates": {"VisibilityOnDemand": False},
            "integrations": {"frameworks": ["pod", "statefulset"]},
        },
        definitions=sorted((source / "crd" / "bases").glob("*.yaml")),
        webhooks=source / "webhook" / "manifests.yaml",
        limited=_limited,
    )


def _limited(_: dict[str, Any]) -> dict[str, Any]:
    """Its own installation asks about pods of all namespaces but its own and the system's."""
    outside = {"key": NAMESPACE_LABEL, "operator": "NotIn", "values": ["kube-system", "kueue-system"]}
    return {"namespaceSelector": {"matchExpressions": [outside]}}


@contextmanager
def queue(workspace: Workspace, name: str, gpus: int) -> Iterator[None]:
    """A queue with this quota of GPUs, and as much of the rest as anybody asks for, until the block ends.

    Nothing may be queued at the end: Kueue keeps a queue that is in use.
    """
    quotas = [("cpu", "10k"), ("memory", "10Pi"), ("ephemeral-storage", "10Pi"), ("nvidia.com/gpu", str(gpus))]
    flavor = {"name": name, "resources": [{"name": one, "nominalQuota": most} for one, most in quotas]}
    group = {"coveredResources": [one for one, _ in quotas], "flavors": [flavor]}
    made = [
        _object("ResourceFlavor", {"name": name}),
        _object("ClusterQueue", {"name": name}, {"namespaceSelector": {}, "resourceGroups": [group]}),
        _object("LocalQueue", {"name": name, "namespace": workspace.namespace}, {"clusterQueue": name}),
    ]
    objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
    workspace.kubectl("apply", "--filename=-", input=objects)
    try:
        yield
    finally:
        workspace.kubectl("delete", f"--timeout={GONE_SECONDS}s", "--filename=-", input=objects)


def _object(kind: str, metadata: dict[str, str], spec: dict[str, Any] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata}
    return {**made, "spec": spec} if spec else made
