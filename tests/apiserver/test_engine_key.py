"""The key of engines on a real API server: the operator creates its Secret with the rights of the chart."""

from e2e.localkube.waiting import eventually
from tests.testing.workspace import QWEN, Workspace


def test_engines_and_routers_with_api_keys_mount_a_secret_that_the_operator_has_created(workspace: Workspace) -> None:
    workspace.create("guarded", {**QWEN, "router": {"keys": {"secretRef": {"name": "users"}}}})
    eventually(lambda: workspace.exists("deployment", "guarded-router"), seconds=60, what="the routers")
    named = [
        workspace.get("deployment", f"guarded-{one}")["spec"]["template"]["metadata"]["annotations"]
        for one in ("engine", "router")
    ]
    (secret,) = {one.get("inference-operator.dev/engine-key") for one in named}
    assert workspace.get("secret", secret)["type"] == "inference-operator.dev/engine-key"
