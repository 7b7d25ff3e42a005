"""Which engine a real ReplicaSet takes away: by the annotation that the operator writes before there are fewer."""

import json

from e2e.localkube.waiting import eventually
from inference_operator.manifest import Manifest
from inference_operator.views.pod import DELETION_COST_ANNOTATION
from tests.testing.workspace import Workspace

SECONDS = 120
TIMES = 20
REQUESTS = (40, 0, 5)
ALONE_ON_A_NODE = {
    "nodeSelector": {"kubernetes.io/hostname": "gpu-0"},
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"of": "d"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    },
}
"""The second replica has no node."""


def deployment(name: str, replicas: int, pod: Manifest) -> Manifest:
    labels = {"of": name}
    containers = [{"name": "engine", "image": "registry.example/engine:1"}]
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": containers, "tolerations": [{"operator": "Exists"}], **pod},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def pods(workspace: Workspace) -> dict[str, list[str]]:
    """The names of the pods that stay, by the name of their Deployment."""
    found = json.loads(workspace.kubectl("get", "pods", "--output=json"))["items"]
    names: dict[str, list[str]] = {}
    for pod in found:
        if "deletionTimestamp" not in pod["metadata"]:
            names.setdefault(pod["metadata"]["labels"]["of"], []).append(pod["metadata"]["name"])
    return names


def settle(workspace: Workspace, count: int) -> dict[str, list[str]]:
    """Wait until each Deployment has so many pods."""
    eventually(
        lambda: all(len(names) == count for names in pods(workspace).values()),
        seconds=SECONDS,
        what=lambda: f"{count} pods each: {pods(workspace)}",
    )
    return pods(workspace)


def ready(workspace: Workspace, *deployments: Manifest) -> dict[str, list[str]]:
    items = {"apiVersion": "v1", "kind": "List", "items": list(deployments)}
    workspace.kubectl("apply", "--filename=-", input=json.dumps(items))
    workspace.kubectl("wait", "deployment", "--all", "--for=condition=Available", f"--timeout={SECONDS}s")
    return settle(workspace, deployments[0]["spec"]["replicas"])


def test_of_three_engines_with_0_5_and_40_requests_the_one_with_0_goes_20_times_of_20(workspace: Workspace) -> None:
    names = [f"d{number}" for number in range(TIMES)]
    engines = ready(workspace, *(deployment(name, len(REQUESTS), {}) for name in names))
    for place, requests in enumerate(REQUESTS):
        some = [engines[name][place] for name in names]
        workspace.kubectl("annotate", "pods", *some, f"{DELETION_COST_ANNOTATION}={requests}")
    workspace.kubectl("scale", "deployment", *names, "--replicas=2")
    left = settle(workspace, 2)
    idle = REQUESTS.index(0)
    assert [name for name in names if engines[name][idle] in left[name]] == []
    assert len(left) == TIMES


def test_a_pending_engine_goes_before_an_idle_one(workspace: Workspace) -> None:
    engines = ready(workspace, deployment("d", 1, ALONE_ON_A_NODE))
    workspace.kubectl("scale", "deployment", "d", "--replicas=2")
    settle(workspace, 2)
    workspace.kubectl("scale", "deployment", "d", "--replicas=1")
    assert settle(workspace, 1) == engines
