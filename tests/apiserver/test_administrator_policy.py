"""An operator with a tighter policy than the one under which a resource began to serve."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.operated_cluster import SETTINGS, temporary_workspace
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QWEN, Workspace

SENTENCE = "Ask platform@example.com."
POLICY = {"modelSources": {"allowed": ["hf://org/"], "message": SENTENCE}, "gpus": {"most": 2}}


@pytest.fixture
def workspace(kubernetes: LocalCluster, operator: OperatorProcess) -> Iterator[Workspace]:
    assert operator.is_running()
    with temporary_workspace(kubernetes, "older") as found:
        yield found


@pytest.fixture
def tightened(account: Path, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator with the policy, which is started by the test."""
    process = OperatorProcess(account, tmp_path / "log", {**SETTINGS, "POLICY": json.dumps(POLICY)})
    yield process
    process.stop()
    assert "Traceback" not in process.log(), process.log()


def conditions(workspace: Workspace, name: str) -> dict[str, tuple[str, str, str]]:
    status = workspace.get("infd", name).get("status", {})
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in status.get("conditions", [])}


def test_what_serves_goes_on_under_a_later_policy_and_nothing_new_is_made_of_it(
    workspace: Workspace, operator: OperatorProcess, tightened: OperatorProcess
) -> None:
    def state(name: str, condition: str) -> tuple[str, str]:
        return conditions(workspace, name).get(condition, ("", "", ""))[:2]

    workspace.create("older", QWEN)
    eventually(lambda: state("older", "Ready") == ("True", "Serving"), seconds=90, what="it serves")
    before = workspace.get("deployment", "older-engine")
    operator.stop()
    try:
        tightened.start()
        eventually(lambda: state("older", "Stalled") == ("True", "RefusedByPolicy"), seconds=60, what="it is refused")
        said = conditions(workspace, "older")
        assert said["Stalled"][2].startswith("spec.model.source: The policy of this cluster (`modelSources`)")
        assert said["Stalled"][2].endswith(SENTENCE)
        assert said["Ready"][:2] == ("True", "Serving")
        assert said["Ready"][2].endswith("The cluster's policy refuses the specification.")
        workspace.kubectl("scale", "infd/older", "--replicas=2")
        workspace.create("newer", QWEN)
        eventually(lambda: state("newer", "Stalled") == ("True", "RefusedByPolicy"), seconds=60, what="it is refused")
        assert not workspace.children("newer")
        live = workspace.get("deployment", "older-engine")
        assert (live["metadata"]["uid"], live["spec"]) == (before["metadata"]["uid"], before["spec"])
        tightened.stop()
    finally:
        operator.start()
    eventually(lambda: workspace.replicas("older") == 2, seconds=60, what="it is scaled where the policy allows it")
