"""An engine that reports too little memory at its start is replaced by one with a shorter context, once."""

import json
from typing import Any

from e2e.localkube.waiting import eventually
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from tests.planning.test_healing import crashed, too_small
from tests.testing.workspace import QWEN, Workspace

HEALED_SECONDS = 60


def engine_pods(workspace: Workspace) -> list[dict[str, Any]]:
    selector = "inference-operator.dev/name=qwen,app.kubernetes.io/component=engine"
    return [pod for pod in workspace.all("pods", selector) if "deletionTimestamp" not in pod["metadata"]]


def fail(workspace: Workspace, pod: str, message: str) -> None:
    """Write what a kubelet writes about a pod whose engine ended before it was ready."""
    status = {**crashed(message), "phase": "Running"}
    status["containerStatuses"] = [
        {"image": "x", "imageID": "x", "restartCount": 1, **one} for one in status["containerStatuses"]
    ]
    patch = json.dumps({"status": status})
    workspace.kubectl("patch", "pod", pod, "--subresource=status", "--type=strategic", f"--patch={patch}")


def context(workspace: Workspace) -> str:
    (container,) = workspace.get("deployment", "qwen-engine")["spec"]["template"]["spec"]["containers"]
    arguments: list[str] = container["args"]
    return next((argument for argument in arguments if argument.startswith("--max-model-len")), "")


def test_an_engine_with_too_little_kv_cache_is_replaced_by_one_with_a_shorter_context_once(
    workspace: Workspace,
) -> None:
    workspace.create("qwen", QWEN)
    workspace.settled("qwen")
    assert context(workspace) == "", "vLLM's own length"
    (first,) = engine_pods(workspace)
    fail(workspace, first["metadata"]["name"], too_small(40960, 5.6, 1.5, 10_500))
    eventually(
        lambda: context(workspace) == "--max-model-len=9968",
        seconds=HEALED_SECONDS,
        what=lambda: f"a shorter context: {workspace.get('infd', 'qwen')['status']}",
    )
    eventually(
        lambda: [one["metadata"]["uid"] != first["metadata"]["uid"] for one in engine_pods(workspace)] == [True],
        seconds=HEALED_SECONDS,
        what="the engine that failed is gone",
    )
    workspace.settled("qwen")
    message = workspace.condition("qwen", "Sized")["message"]
    assert "the context was reduced from 40,960 to 9,968 tokens" in message
    deployment = workspace.get("deployment", "qwen-engine")
    plan = PLAN_ANNOTATION.read(deployment)
    assert plan
    assert plan.plan.learned
    assert plan.plan.learned.longest == 10_500
    generation = deployment["metadata"]["generation"]
    (second,) = engine_pods(workspace)
    fail(workspace, second["metadata"]["name"], too_small(9968, 1.4, 1.3, 9000))
    workspace.settled("qwen", "Reconciling", reason="KvCacheTooSmall")
    assert workspace.get("deployment", "qwen-engine")["metadata"]["generation"] == generation
