"""`infd support-bundle` on a real API server: what is in it, and that no secret is."""

import json
import tarfile
from pathlib import Path

import yaml

from e2e.localkube.waiting import eventually
from tests.testing.infd_command import infd
from tests.testing.workspace import QWEN, Workspace

SECRETS = ("s3cret-of-a-variable", "hf_AbCdEfGhIjKlMnOp", "s3cret-of-a-secret", "s3cret-of-an-annotation")


def bundle(workspace: Workspace, path: Path, *arguments: str) -> dict[str, str]:
    """The files of a bundle by their path below its folder."""
    status, said, complaints = infd(
        workspace.cluster, "support-bundle", f"--namespace={workspace.namespace}", f"--file={path}", "--yes", *arguments
    )
    assert status == 0, complaints
    with tarfile.open(path) as archive:
        found = {
            one.name.partition("/")[2]: content.read().decode()
            for one in archive.getmembers()
            if (content := archive.extractfile(one))
        }
    assert all(name in said for name in found)
    return found


def test_a_bundle_has_what_helps_and_no_secret(workspace: Workspace, tmp_path: Path) -> None:
    variable, token, stored, annotation = SECRETS
    workspace.kubectl("create", "secret", "generic", "mine", f"--from-literal=key={stored}")
    env = [{"name": "HF_HUB_DOWNLOAD_TIMEOUT", "value": variable}]
    workspace.create("qwen", {**QWEN, "engine": {"env": env}})
    workspace.settled("qwen")
    workspace.kubectl("annotate", "infd", "qwen", f"example.com/a={annotation}", f"inference-operator.dev/b=x {token}")
    path = tmp_path / "bundle.tar.gz"
    found = bundle(workspace, path, "qwen")
    assert {"versions.txt", "doctor.json", "resources/qwen.yaml", "nodes.yaml"} <= set(found)
    assert {"objects/deployment-qwen-engine.yaml", "objects/service-qwen.yaml"} <= set(found)
    assert any(name.startswith("pods/qwen-engine-") and name.endswith("/pod.yaml") for name in found)
    assert any(name.startswith("operator/") and "/deployment-" in name for name in found)
    everything = "\n".join(found.values())
    assert not [one for one in SECRETS if one in everything]
    resource = yaml.safe_load(found["resources/qwen.yaml"])
    assert resource["status"]["conditions"]
    assert resource["spec"]["engine"]["env"] == [{"name": "HF_HUB_DOWNLOAD_TIMEOUT", "value": "[hidden]"}]
    assert path.stat().st_mode & 0o077 == 0


def test_it_lists_before_it_writes_and_never_replaces_a_file(workspace: Workspace, tmp_path: Path) -> None:
    workspace.create("qwen", {**QWEN, "parallelism": {"tensor": 1, "nodes": 2}})
    group = "qwen-engine-0"
    eventually(lambda: workspace.exists("pod", f"{group}-1"), seconds=30, what="the pods of an engine on two nodes")
    here = f"--namespace={workspace.namespace}"
    path = tmp_path / "bundle.tar.gz"
    status, said, _ = infd(workspace.cluster, "support-bundle", here, "--dry-run", "--output=json", f"--file={path}")
    assert status == 0
    listed = {one["path"] for one in json.loads(said)["items"]}
    assert {"resources/qwen.yaml", f"objects/statefulset-{group}.yaml"} <= listed
    assert {f"pods/{group}-0/pod.yaml", f"pods/{group}-1/pod.yaml"} <= listed
    assert not path.exists()
    status, _, complaints = infd(workspace.cluster, "support-bundle", here)
    assert (status, complaints.split(",")[0]) == (2, "Without a terminal")
    path.write_text("mine")
    status, _, complaints = infd(workspace.cluster, "support-bundle", here, "--yes", f"--file={path}")
    assert (status, "exists already" in complaints, path.read_text()) == (2, True, "mine")
    status, _, complaints = infd(workspace.cluster, "support-bundle", "otter", here, "--yes", f"--file={path}2")
    assert (status, "There is no InferenceDeployment `otter`" in complaints) == (3, True)


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: old}
spec:
  replicas: 0
  selector: {matchLabels: {app: old}}
  template:
    metadata: {labels: {app: old}}
    spec:
      containers:
      - name: vllm
        image: docker.io/vllm/vllm-openai:v0.32.0
        args: [--model=Qwen/Qwen3-8B, --max-model-len=8192]
"""


def test_a_deployment_of_the_cluster_becomes_a_manifest_that_the_api_server_takes(workspace: Workspace) -> None:
    workspace.kubectl("apply", "--filename=-", input=DEPLOYMENT)
    here = f"--namespace={workspace.namespace}"
    status, said, complaints = infd(workspace.cluster, "import", "deployment/old", here)
    assert status == 0, complaints
    assert "Deployment old: spec.selector: the operator sets it." in complaints.splitlines()
    workspace.kubectl("apply", "--dry-run=server", "--filename=-", input=said)
    assert yaml.safe_load(said)["spec"]["model"] == {"source": "hf://Qwen/Qwen3-8B"}
    status, _, complaints = infd(workspace.cluster, "import", "model/otter", here)
    assert (status, "There is no model `otter`" in complaints) == (3, True)
