"""`infd doctor` on a real API server: an administrator's list, a plain user's, a refusing policy, a pod from inside."""

import json
import threading
from pathlib import Path
from typing import Any

import yaml

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.infd_command import infd
from tests.testing.workspace import Workspace, served


def doctor(cluster: LocalCluster, *arguments: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit status, and the findings by their check."""
    status, said, complaints = infd(cluster, "doctor", "--output=json", *arguments)
    assert said, complaints
    shown = json.loads(said)
    assert shown["healthy"] is (status == 0)
    found: dict[str, list[dict[str, Any]]] = {}
    for one in shown["findings"]:
        found.setdefault(one["check"], []).append(one)
    return status, found


def health(found: dict[str, list[dict[str, Any]]], check: str) -> list[str]:
    return [one["health"] for one in found[check]]


RIGHT = ("Kubernetes", "CRD", "Operator", "Its rights", "GPUs", "GPU labels", "Admission", "Pod Security", "Image pull")


def test_an_administrator_sees_what_is_right(workspace: Workspace) -> None:
    served(workspace)
    status, found = doctor(workspace.cluster, f"--namespace={workspace.namespace}")
    assert status == 0
    for check in (*RIGHT, "Your rights"):
        assert health(found, check) == ["good"], found[check]
    assert health(found, "Hub") == ["unknown"]
    assert health(found, "Leftovers") == ["good"], found["Leftovers"]


def test_an_object_without_an_owner_and_a_policy_that_refuses_pods_are_found(workspace: Workspace) -> None:
    workspace.kubectl("create", "configmap", "left")
    workspace.kubectl("label", "configmap", "left", "app.kubernetes.io/managed-by=inference-operator")
    workspace.kubectl("create", "quota", "none", "--hard=pods=0")
    _, found = doctor(workspace.cluster, f"--namespace={workspace.namespace}")
    assert health(found, "Leftovers") == ["note"]
    assert f"ConfigMap {workspace.namespace}/left" in found["Leftovers"][0]["message"]
    assert health(found, "Admission") == ["bad"]
    assert "exceeded quota" in found["Admission"][0]["message"]
    assert found["Admission"][0]["cure"].startswith("Raise the ResourceQuota")
    workspace.kubectl("delete", "quota", "none")
    workspace.kubectl("create", "quota", "limits", "--hard=limits.cpu=10")
    _, found = doctor(workspace.cluster, f"--namespace={workspace.namespace}")
    assert found["Admission"][0]["cure"].startswith("Set the limits that it names")
    workspace.kubectl("delete", "quota", "limits")
    limits = {"limits": [{"type": "Container", "max": {"memory": "64Mi"}}]}
    range_ = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": limits}
    workspace.kubectl("apply", "--filename=-", input=json.dumps(range_))
    _, found = doctor(workspace.cluster, f"--namespace={workspace.namespace}")
    assert found["Admission"][0]["cure"].startswith("Change the LimitRange"), found["Admission"]


def options_of(workspace: Workspace, folder: Path, role: str) -> tuple[str, str]:
    """The options of somebody with a ClusterRole in the namespace."""
    workspace.kubectl("create", "serviceaccount", role)
    account = f"{workspace.namespace}:{role}"
    workspace.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--serviceaccount={account}")
    token = workspace.kubectl("create", "token", role).strip()
    config = yaml.safe_load(workspace.cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    return f"--kubeconfig={folder / 'kubeconfig'}", f"--namespace={workspace.namespace}"


def test_the_role_edit_lacks_what_the_cure_says(workspace: Workspace, tmp_path: Path) -> None:
    _, found = doctor(workspace.cluster, *options_of(workspace, tmp_path, "edit"))
    (rights,) = found["Your rights"]
    assert rights["message"].splitlines()[1:] == ["list nodes (for plan --cluster)"]
    assert "`edit` has all of them but `list nodes`" in rights["cure"]


def test_a_plain_user_sees_a_part_and_the_missing_rights(workspace: Workspace, tmp_path: Path) -> None:
    mine = options_of(workspace, tmp_path, "view")
    _, found = doctor(workspace.cluster, *mine)
    assert health(found, "Kubernetes") == ["good"]
    assert found["GPUs"][0]["message"] == "Not seen: the right to list nodes is missing."
    assert found["Admission"][0]["message"].endswith("the right to create pods is missing.")
    assert health(found, "Your rights") == ["note"]
    status, said, _ = infd(workspace.cluster, "doctor", *mine)
    assert status in {0, 1}
    assert "could not be seen." in said.splitlines()[-1]


def test_a_pod_asks_from_inside_and_is_gone_afterwards(workspace: Workspace) -> None:
    told = json.dumps({"dns_error": "", "dns_ttl_seconds": 30, "hub_error": "timed out"})
    state = {"terminated": {"exitCode": 0, "message": told}}
    container = {"name": "doctor", "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    patch = json.dumps({"status": {"phase": "Succeeded", "containerStatuses": [container]}})
    seen: list[dict[str, Any]] = []

    def kubelet() -> None:
        """Stand in for the kubelet of the pod, which ends at once."""
        selector = "--selector=app.kubernetes.io/component=doctor"
        eventually(
            lambda: workspace.kubectl("get", "pods", selector, "--output=name").strip(), seconds=60, what="the pod"
        )
        pod = json.loads(workspace.kubectl("get", "pods", selector, "--output=json"))["items"][0]
        seen.append(pod)
        workspace.kubectl("patch", "pod", pod["metadata"]["name"], "--subresource=status", f"--patch={patch}")

    thread = threading.Thread(target=kubelet)
    thread.start()
    status, found = doctor(workspace.cluster, f"--namespace={workspace.namespace}", "--cluster")
    thread.join()
    assert status == 1
    assert health(found, "Pod in the cluster") == ["good"], found["Pod in the cluster"]
    assert health(found, "DNS from a pod") == ["good"]
    assert found["DNS"][0]["message"].startswith("Cluster records live 30 s")
    assert (health(found, "Hub"), found["Hub"][0]["message"]) == (["bad"], "It does not reach the hub: timed out.")
    assert seen[0]["spec"]["securityContext"]["runAsNonRoot"] is True
    assert "No resources" in workspace.kubectl("get", "pods", "--ignore-not-found") or not workspace.kubectl(
        "get", "pods", "--output=name"
    )
