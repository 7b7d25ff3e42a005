"""A second engine and a second role on a real API server."""

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pytest

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ENGINE
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from tests.testing.forks import ROOT
from tests.testing.operated_cluster import operated_by, temporary_workspace
from tests.testing.operator_process import READY_SECONDS, OperatorProcess
from tests.testing.second_engine import HELPER, helper_annotation
from tests.testing.workspace import QWEN, Workspace, manifest

POOL = "helpers"
TAINT = {"key": POOL, "value": "test", "effect": "NoSchedule"}
ROLE_SECONDS = 60
SECOND_ENGINE = "tests.testing.second_engine"


@pytest.fixture
def two_roles(account: Path, operator: OperatorProcess, tmp_path: Path) -> Iterator[OperatorProcess]:
    """The operator with the second engine in a second role."""
    with operated_by(SECOND_ENGINE, operator, account, tmp_path / "log") as process:
        yield process


@pytest.fixture
def pool(kubernetes: LocalCluster) -> Iterator[Sequence[str]]:
    """The names of two nodes for engines of the second role alone."""
    names = (POOL, f"{POOL}-second")
    for name in names:
        kubernetes.kubectl("apply", "--filename=-", input=json.dumps(node(kubernetes, name)))
    yield names
    kubernetes.kubectl("delete", "node", *names)


def node(kubernetes: LocalCluster, name: str) -> Manifest:
    """A node like `gpu-0`, for pods that tolerate its taint."""
    usual = json.loads(kubernetes.kubectl("get", "node", "gpu-0", "--output=json"))
    labels = {**usual["metadata"]["labels"], "kubernetes.io/hostname": name, "pool": POOL}
    annotations = {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}
    room = usual["status"]["capacity"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"taints": [TAINT]},
        "status": {"capacity": room, "allocatable": room},
    }


def test_two_roles_of_two_engines_become_two_deployments_that_serve(
    kubernetes: LocalCluster, two_roles: OperatorProcess
) -> None:
    assert two_roles.is_running()
    kubernetes.kubectl("create", "namespace", "two-roles")
    workspace = Workspace(kubernetes, "two-roles")
    workspace.create("qwen", QWEN)
    eventually(
        lambda: {"deployment.apps/qwen-engine", "deployment.apps/qwen-helper"} <= workspace.children("qwen"),
        seconds=READY_SECONDS,
        what="two Deployments",
    )
    engines = {}
    for role in ("engine", "helper"):
        deployment = workspace.get("deployment", f"qwen-{role}")
        engines[role] = json.loads(deployment["metadata"]["annotations"][PLAN_ANNOTATION.key])["engine"]
        assert deployment["spec"]["template"]["spec"]["containers"][0]["name"] == role
    assert engines == {"engine": "VLLM", "helper": "ECHO"}
    assert workspace.settled("qwen", saying="4 of 4")["message"] == "4 of 4 engines are ready."
    kubernetes.kubectl("delete", "namespace", "two-roles", "--wait=false")


def test_each_role_is_killed_scaled_rolled_and_drained_apart_and_goes_with_its_objects(
    kubernetes: LocalCluster, two_roles: OperatorProcess, pool: Sequence[str]
) -> None:
    assert two_roles.is_running()
    with temporary_workspace(kubernetes, "apart") as workspace:
        where = {"nodeSelector": {"pool": POOL}, "tolerations": [TAINT]}
        own: Manifest = {"replicas": 1, "scheduling": where}
        workspace.create("qwen", {**QWEN, "podTemplate": helper_annotation(own)})
        workspace.settled("qwen", saying="2 of 2")
        engines, (helper,) = pods(workspace, ENGINE), pods(workspace, HELPER)

        workspace.kubectl("delete", "pod", helper, "--wait=false")
        await_pods(workspace, HELPER, 1, other_than={helper})
        (helper,) = pods(workspace, HELPER)

        own = {**own, "engine": {"image": "registry.example/echo:2"}}
        workspace.patch("qwen", {"podTemplate": helper_annotation(own)})
        await_pods(workspace, HELPER, 1, other_than={helper})
        workspace.settled("qwen", "Reconciling", "False")
        ((helper, place),) = pods(workspace, HELPER).items()

        kubernetes.kubectl("cordon", place)
        await_pods(workspace, HELPER, 1, other_than={helper})
        workspace.settled("qwen", "Reconciling", "False")
        assert set(pods(workspace, HELPER).values()) == {*pool} - {place}
        kubernetes.kubectl("uncordon", place)

        workspace.patch("qwen", {"podTemplate": helper_annotation({**own, "replicas": 2})})
        await_pods(workspace, HELPER, 2)
        assert pods(workspace, ENGINE) == engines, "what happened to one role happened to no other"
        helpers = pods(workspace, HELPER)
        workspace.kubectl("scale", "infd", "qwen", "--replicas=2")
        await_pods(workspace, ENGINE, 2)
        workspace.settled("qwen", saying="4 of 4")
        status = settled_status(workspace)
        assert [(role["name"], role["replicas"]) for role in status["roles"]] == [(ENGINE, 2), (HELPER, 2)]
        assert (pods(workspace, HELPER), status["replicas"]) == (helpers, 2)

        workspace.patch("qwen", {"podTemplate": helper_annotation(None)})
        await_pods(workspace, HELPER, 0)
        eventually(
            lambda: not any("qwen-helper" in name for name in workspace.children("qwen")),
            seconds=ROLE_SECONDS,
            what=lambda: f"no object of {HELPER}: {workspace.children('qwen')}",
        )
        assert "roles" not in settled_status(workspace)


def settled_status(workspace: Workspace) -> Manifest:
    workspace.settled("qwen", "Reconciling", "False")
    status: Manifest = workspace.get("infd", "qwen")["status"]
    return status


def pods(workspace: Workspace, role: str) -> dict[str, str]:
    """The nodes of the pods of a role that stay, by the names of the pods."""
    listed = workspace.all("pods", f"inference-operator.dev/name=qwen,app.kubernetes.io/component={role}")
    staying = (pod for pod in listed if "deletionTimestamp" not in pod["metadata"])
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in staying}


def await_pods(workspace: Workspace, role: str, number: int, other_than: Collection[str] = ()) -> None:
    eventually(
        lambda: len(found := pods(workspace, role)) == number and not found.keys() & set(other_than),
        seconds=ROLE_SECONDS,
        what=lambda: f"{number} of {role}: {pods(workspace, role)}, {workspace.get('infd', 'qwen')['status']}",
    )


def test_infd_plan_sizes_for_a_second_engine_on_the_nodes_of_the_cluster(kubernetes: LocalCluster) -> None:
    command = [sys.executable, "-m", SECOND_ENGINE, "infd", "plan", "--cluster", "--filename=-", "--output=json"]
    result = subprocess.run(
        command,
        input=manifest("qwen", QWEN),
        env={**os.environ, "KUBECONFIG": str(kubernetes.kubeconfig)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    (plan,) = json.loads(result.stdout)["items"]
    assert (plan["planned"], plan["plan"]["gpu"]) == (True, "H100-80GB")
