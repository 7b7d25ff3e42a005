"""An engine of two pods that shows no metrics and has a budget of its own. No file of the operator names it.

`python -m tests.testing.pair_engine` runs the operator with it, `python -m tests.testing.pair_engine infd` the command.
"""

import json
import sys
from typing import Any

from inference_operator.app import main
from inference_operator.cli.main import main as infd
from inference_operator.views.pod import GROUP_LABEL, POD_INDEX_LABEL
from tests.testing.preallocating_engine import REGISTRY
from tests.testing.workspace import Workspace

ENGINE_PODS = "inference-operator.dev/name=qwen,app.kubernetes.io/component=engine"
GATE = "example.com/worker"
"""Scheduling gate of a worker, until a test opens it."""


def make_pairs(workspace: Workspace) -> list[str]:
    """Do what a controller of groups would: each engine pod becomes a leader and gets a worker, which is gated.

    Returns the names of the workers.
    """
    pods = workspace.all("pods", ENGINE_PODS)
    alone = [pod for pod in pods if GROUP_LABEL not in pod["metadata"]["labels"]]
    return [_add_worker(workspace, pod) for pod in alone]


def open_gate(workspace: Workspace, worker: str) -> None:
    """Let a worker be scheduled."""
    patch = json.dumps([{"op": "remove", "path": "/spec/schedulingGates"}])
    workspace.kubectl("patch", "pod", worker, "--type=json", f"--patch={patch}")


def _add_worker(workspace: Workspace, leader: dict[str, Any]) -> str:
    meta, spec = leader["metadata"], leader["spec"]
    name = f"{meta['name']}-1"
    group = {GROUP_LABEL: meta["name"]}
    workspace.kubectl("label", "pod", meta["name"], f"{GROUP_LABEL}={meta['name']}", f"{POD_INDEX_LABEL}=0")
    labels = {key: value for key, value in meta["labels"].items() if key != "pod-template-hash"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    worker = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**labels, **group, POD_INDEX_LABEL: "1"},
            "annotations": meta.get("annotations", {}),
            "ownerReferences": [owner],
        },
        "spec": {
            **{key: value for key, value in spec.items() if key != "nodeName"},
            "schedulingGates": [{"name": GATE}],
        },
    }
    workspace.kubectl("create", "--filename=-", input=json.dumps(worker))
    return name


if __name__ == "__main__":
    if sys.argv[1:2] == ["infd"]:
        infd(sys.argv[2:], REGISTRY)
    main(REGISTRY)
