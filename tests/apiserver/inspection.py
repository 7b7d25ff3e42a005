"""Sets the status of an inspection pod as a kubelet would: KWOK ends every Job pod without a termination message."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.localkube.waiting import eventually
from tests.testing.inspected import QWEN3
from tests.testing.workspace import Workspace

MINE = {"model": {"source": "hf://nobody/mine"}}
INSPECTION = "app.kubernetes.io/component=inspection"
SELECTOR = f"--selector={INSPECTION}"
MODEL = {
    "model": "hf://nobody/mine",
    "source": "hf://nobody/mine:config.json",
    "config": QWEN3,
    "weights": {"gib": 15.25, "source": "5 files of model.safetensors.index.json", "exact": True},
}
GATED = {"error": {"cause": "Gated", "field": "hf://a/b", "problem": "is gated.", "cure": "Ask for it."}}


def job_pods(workspace: Workspace, selector: str = INSPECTION) -> list[dict[str, Any]]:
    """The pods of all inspections, or of other Jobs."""
    return workspace.all("pods", selector)


@contextmanager
def without_nodes(workspace: Workspace) -> Iterator[None]:
    """No pod gets a node until the block ends: KWOK ends the pod of a Job as soon as it has one."""
    workspace.kubectl("cordon", "--selector=type=kwok")
    try:
        yield
    finally:
        workspace.kubectl("uncordon", "--selector=type=kwok")


def let_it_say(workspace: Workspace, document: object, *, component: str = "inspection") -> None:
    """Wait until the pod of the newest Job of this component has ended, and show its last words."""

    selector = f"app.kubernetes.io/component={component}"

    def ended() -> str | None:
        jobs = workspace.all("jobs", selector)
        newest = max(jobs, key=lambda one: str(one["metadata"]["creationTimestamp"]), default=None)
        pods = (one for one in job_pods(workspace, selector) if newest and _is_of(one, newest))
        return next((str(one["metadata"]["name"]) for one in pods if one["status"].get("phase") == "Succeeded"), None)

    name = eventually(ended, seconds=60, what="a Job's pod that has ended")
    said = {"exitCode": 0, "reason": "Completed", "message": json.dumps(document)}
    status = {"containerStatuses": [{"name": component, "state": {"terminated": said}}]}
    patch = json.dumps({"status": status})
    workspace.kubectl("patch", "pod", str(name), "--subresource=status", "--type=strategic", f"--patch={patch}")


def _is_of(pod: dict[str, Any], job: dict[str, Any]) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == job["metadata"]["uid"] for owner in owners)
