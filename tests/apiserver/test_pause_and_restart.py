"""`infd pause`, `infd resume` and `infd restart` as a user runs them, beside each other and beside Git."""

import time

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.waiting import eventually
from tests.testing.infd_command import infd
from tests.testing.operated_cluster import RESYNC_SECONDS
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace, manifest

COMMAND_SECONDS = 120
RENEWED = "renewed-at-generation"


def run(workspace: Workspace, *arguments: str) -> tuple[int, str, str]:
    """Its exit status, output and complaints."""
    return infd(workspace.cluster, *arguments, f"--namespace={workspace.namespace}")


def spec(workspace: Workspace) -> dict[str, object]:
    found: dict[str, object] = workspace.get("infd", "qwen")["spec"]
    return found


def writes_of_children(workspace: Workspace, audit: AuditLog, mark: int) -> list[str]:
    return [str(one) for one in audit.changes(mark, namespace=workspace.namespace)]


def test_a_paused_resource_is_left_alone_also_by_a_restarted_operator_until_it_is_resumed(
    qwen: Workspace, audit: AuditLog, operator: OperatorProcess
) -> None:
    status, said, complaints = run(qwen, "pause", "qwen")
    assert (status, complaints) == (0, "")
    assert f"{qwen.namespace}/qwen: paused. Engines and routers go on serving." in said
    assert run(qwen, "pause", "qwen")[1].endswith("is paused already. Nothing was changed.\n")
    mark = audit.mark()
    qwen.create("qwen", {**QWEN, "replicas": 2, "engine": {"args": ["--seed=8"]}})
    qwen.kubectl("delete", "configmap", "qwen-router")
    operator.stop()
    operator.start()
    time.sleep(RESYNC_SECONDS + QUIET_SECONDS)
    assert writes_of_children(qwen, audit, mark) == []
    assert qwen.condition("qwen", "Ready")["reason"] == "Paused"
    status, _, complaints = run(qwen, "restart", "qwen")
    assert (status, "Run `infd resume` first." in complaints) == (1, True)

    status, said, complaints = run(qwen, "resume", "qwen")
    assert (status, complaints) == (0, "")
    assert said.endswith("resumed. The operator applies the edits that have waited.\n")
    assert "paused" not in spec(qwen)
    eventually(lambda: qwen.exists("configmap", "qwen-router"), seconds=COMMAND_SECONDS, what="it is repaired")
    eventually(lambda: qwen.replicas("qwen") == 2, seconds=COMMAND_SECONDS, what="the edit is applied")
    container = qwen.get("deployment", "qwen-engine")["spec"]["template"]["spec"]["containers"][0]
    assert "--seed=8" in container["args"]
    assert run(qwen, "resume", "qwen")[1].endswith("is not paused already. Nothing was changed.\n")


def test_a_paused_resource_can_be_deleted(qwen: Workspace) -> None:
    assert run(qwen, "pause", "qwen")[0] == 0
    qwen.kubectl("delete", "infd", "qwen", "--wait=true")
    eventually(lambda: not qwen.children("qwen"), seconds=COMMAND_SECONDS, what="the children are collected")


def test_engines_and_routers_restart_apart_and_edits_of_infd_keep_each_other(workspace: Workspace) -> None:
    assert run(workspace, "run", "qwen", "Qwen/Qwen3-8B")[0] == 0
    engines, routers = (workspace.get("deployment", f"qwen-{pods}") for pods in ("engine", "router"))
    status, said, complaints = run(workspace, "restart", "qwen")
    assert (status, complaints) == (0, "")
    assert said.startswith(f"{workspace.namespace}/qwen: engines are replaced one by one.\n")
    assert said.endswith(f"{workspace.namespace}/qwen: all engines are new.\n")
    later = workspace.get("deployment", "qwen-engine")
    assert RENEWED in later["spec"]["template"]["metadata"]["annotations"]
    assert later["status"]["updatedReplicas"] == later["status"]["replicas"] == engines["status"]["replicas"]
    assert workspace.get("deployment", "qwen-router")["spec"]["template"] == routers["spec"]["template"]

    status, said, complaints = run(workspace, "restart", "qwen", "--routers")
    assert (status, complaints) == (0, "")
    assert said.endswith(f"{workspace.namespace}/qwen: all routers are new.\n")
    assert workspace.get("deployment", "qwen-router")["spec"]["template"] != routers["spec"]["template"]
    assert workspace.get("deployment", "qwen-engine")["spec"]["template"] == later["spec"]["template"]

    assert run(workspace, "pause", "qwen")[0] == 0
    assert run(workspace, "resume", "qwen")[0] == 0
    found = workspace.get("infd", "qwen")["spec"]
    assert found["model"]["source"] == "hf://Qwen/Qwen3-8B"
    assert RENEWED in found["podTemplate"]["annotations"]
    assert RENEWED in found["router"]["podTemplate"]["annotations"]


def test_what_somebody_else_has_paused_is_resumed_and_what_git_sets_is_not_edited(qwen: Workspace) -> None:
    qwen.patch("qwen", {"paused": True})
    qwen.settled("qwen", "Ready", reason="Paused")
    assert run(qwen, "resume", "qwen")[0] == 0
    assert spec(qwen)["paused"] is False

    text = manifest("qwen", {**QWEN, "paused": True, "podTemplate": {"annotations": {RENEWED: "1"}}})
    flux = ("apply", "--server-side", "--force-conflicts", "--field-manager=kustomize-controller", "--filename=-")
    qwen.kubectl(*flux, input=text)
    qwen.settled("qwen", "Ready", reason="Paused")
    before = qwen.get("infd", "qwen")["metadata"]["generation"]
    status, _, complaints = run(qwen, "resume", "qwen")
    assert (status, complaints.split(": ", 1)[1]) == (
        1,
        "Flux sets `spec.paused` from its source. Commit `spec.paused: false` there.\n",
    )
    assert qwen.get("infd", "qwen")["metadata"]["generation"] == before

    qwen.kubectl(*flux, input=text.replace("paused: true", "paused: false"))
    status, _, complaints = run(qwen, "restart", "qwen")
    assert (status, "Flux sets the annotation from its source, so nothing was changed." in complaints) == (1, True)


def test_a_pause_and_a_restart_survive_the_next_apply_from_git_that_names_neither(qwen: Workspace) -> None:
    flux = ("apply", "--server-side", "--force-conflicts", "--field-manager=kustomize-controller", "--filename=-")
    qwen.kubectl(*flux, input=manifest("qwen", QWEN))
    assert run(qwen, "restart", "qwen", "--no-wait")[0] == 0
    assert run(qwen, "pause", "qwen")[0] == 0
    kept = spec(qwen)
    qwen.kubectl(*flux, input=manifest("qwen", QWEN))
    assert spec(qwen) == kept
    assert run(qwen, "resume", "qwen")[0] == 0


def test_what_is_not_there_is_named(workspace: Workspace) -> None:
    for command in ("pause", "resume", "restart"):
        status, said, complaints = run(workspace, command, "otter")
        assert (status, said) == (3, "")
        assert complaints.startswith("There is no InferenceDeployment `otter`")
