"""`infd run` as a user runs it: creates a resource, follows it until it serves, and never changes an existing one."""

from tests.testing.infd_command import infd
from tests.testing.workspace import QWEN, Workspace


def run(workspace: Workspace, *arguments: str) -> tuple[int, str, str]:
    """Its exit status, output and complaints."""
    return infd(workspace.cluster, "run", f"--namespace={workspace.namespace}", *arguments)


def test_a_model_is_served_and_the_next_commands_are_printed(workspace: Workspace) -> None:
    status, said, complaints = run(workspace, "ran", "Qwen/Qwen3-8B")
    assert (status, complaints) == (0, "")
    assert said.startswith(f"{workspace.namespace}/ran: created.\n")
    assert f"It serves at http://ran.{workspace.namespace}.svc.cluster.local/v1 inside the cluster." in said
    assert f"kubectl port-forward --namespace {workspace.namespace} service/ran 8080:80" in said
    assert workspace.get("infd", "ran")["spec"]["model"]["source"] == "hf://Qwen/Qwen3-8B"


def test_an_existing_resource_is_not_changed(workspace: Workspace) -> None:
    workspace.create("qwen", {**QWEN, "replicas": 2})
    before = workspace.get("infd", "qwen")["metadata"]["generation"]
    status, _, complaints = run(workspace, "qwen", "Qwen/Qwen3-0.6B")
    assert status == 1
    assert f"{workspace.namespace}/qwen exists, and was not changed." in complaints
    assert workspace.get("infd", "qwen")["metadata"]["generation"] == before


def test_a_resource_that_cannot_serve_is_told_with_its_cause_and_stays(workspace: Workspace) -> None:
    status, said, complaints = run(workspace, "large", "deepseek-ai/DeepSeek-R1", "--gpu=L4")
    assert status == 1
    assert "large: " in said.splitlines()[-1]
    assert complaints.startswith("It cannot go on by itself. The resource stays")
    assert workspace.exists("infd", "large")


def test_without_waiting_it_ends_at_once(workspace: Workspace) -> None:
    status, said, _ = run(workspace, "ran", "Qwen/Qwen3-8B", "--no-wait")
    assert (status, said) == (0, f"{workspace.namespace}/ran: created.\n")


def test_a_namespace_that_does_not_exist_is_named(workspace: Workspace) -> None:
    status, _, complaints = run(workspace, "ran", "Qwen/Qwen3-8B", "--namespace=nowhere")
    assert status == 3
    assert 'namespaces "nowhere" not found' in complaints
