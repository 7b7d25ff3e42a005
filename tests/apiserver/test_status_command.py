"""`infd list` and `infd status` as a user runs them, with the kubeconfig's namespace and contexts."""

import json
import re
from pathlib import Path

import yaml

from tests.testing.infd_command import infd
from tests.testing.workspace import QWEN, Workspace, served


def with_namespace(workspace: Workspace, folder: Path) -> tuple[Path, str]:
    """A kubeconfig whose second context has the workspace's namespace, and that context's name."""
    config = yaml.safe_load(workspace.cluster.kubeconfig.read_text())
    (first, *_) = config["contexts"]
    own = {"name": "own", "context": {**first["context"], "namespace": workspace.namespace}}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump({**config, "contexts": [*config["contexts"], own]}))
    return path, "own"


def test_a_ready_resource_is_on_one_screen_and_in_the_list(workspace: Workspace, tmp_path: Path) -> None:
    served(workspace)
    file, context = with_namespace(workspace, tmp_path)
    status, said, complaints = infd(workspace.cluster, "status", "qwen", f"--kubeconfig={file}", f"--context={context}")
    assert (status, complaints) == (0, "")
    assert said.startswith("qwen  Ready\n")
    for part in (f"Namespace  {workspace.namespace}, ", "Plan       1xH100-80GB for each engine", "qwen-engine-"):
        assert part in said
    status, said, _ = infd(workspace.cluster, "status", "qwen", f"--namespace={workspace.namespace}", "--output=json")
    found = json.loads(said)
    assert (status, found["ready"], found["enginesReady"], found["namespace"]) == (0, True, "1/1", workspace.namespace)
    _, said, _ = infd(workspace.cluster, "list", f"--kubeconfig={file}", f"--context={context}")
    assert said.splitlines()[1].split()[:3] == ["qwen", "Qwen3-8B", "True"]
    _, everywhere, _ = infd(workspace.cluster, "list", "-A")
    assert re.search(rf"^{workspace.namespace} +qwen +Qwen3-8B +True", everywhere, re.MULTILINE)


def test_a_resource_that_cannot_serve_is_told_with_its_cause(workspace: Workspace) -> None:
    workspace.create("qwen", {**QWEN, "engine": {"args": ["--max-model-length=1"]}})
    workspace.settled("qwen", "Stalled", "True")
    status, said, _ = infd(workspace.cluster, "status", "qwen", "-n", workspace.namespace)
    assert status == 1
    assert said.splitlines()[0] == "qwen  not ready: UnknownArgument"
    assert "Did you mean `--max-model-len`?" in said.splitlines()[1]
    _, listed, _ = infd(workspace.cluster, "list", "-n", workspace.namespace)
    assert "Did you mean `--max-model-len`?" in listed.splitlines()[-1]


def test_what_is_not_there_is_named(workspace: Workspace) -> None:
    status, _, complaints = infd(workspace.cluster, "status", "otter", "-n", workspace.namespace)
    assert (status, complaints.split(" in the")[0]) == (3, "There is no InferenceDeployment `otter`")
    status, said, _ = infd(workspace.cluster, "list", "-n", workspace.namespace)
    assert (status, "Create one: infd run NAME MODEL" in said) == (0, True)
    status, _, complaints = infd(workspace.cluster, "list", "--context=nowhere")
    assert (status, "has no such context" in complaints) == (2, True)
    status, _, complaints = infd(workspace.cluster, "status", "qwen", "--watch")
    assert (status, complaints) == (2, "--watch needs a terminal, and a table as output.\n")
