"""LeaderWorkerSet's controller, for the benchmark of groups."""

from typing import Any

from e2e.go_modules import ensure_lws
from e2e.helpers.webhook_controller import WebhookController


def lws() -> WebhookController:
    """The controller with its webhooks, built if it is missing."""
    command, source = ensure_lws()
    return WebhookController(
        name="lws",
        command=[str(command)],
        configuration={"apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration"},
        definitions=sorted((source / "crd" / "bases").glob("*.yaml")),
        webhooks=source / "webhook" / "manifests.yaml",
        limited=_limited,
    )


def _limited(webhook: dict[str, Any]) -> dict[str, Any]:
    """Only pods of groups are asked about."""
    if "pod" not in webhook["name"]:
        return {}
    key = "leaderworkerset.sigs.k8s.io/name"
    return {"objectSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
