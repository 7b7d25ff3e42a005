"""An upgrade of the operator writes no router, and an edit of the routers brings the new release's."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.audit import TELLING, AuditLog
from e2e.waiting import eventually
from tests.testing.operated_cluster import SETTINGS
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import Workspace

IMAGE = "example.com/router:later"
WAIT_SECONDS = 120


@pytest.fixture
def upgraded(operator: OperatorProcess, account: Path, tmp_path: Path, qwen: Workspace) -> Iterator[OperatorProcess]:
    """A later release in the place of the operator, with another router image. The resource is served by then."""
    assert qwen
    command = (sys.executable, "-m", "tests.apiserver.later_release")
    process = OperatorProcess(account, tmp_path / "log", {**SETTINGS, "ROUTER_IMAGE": IMAGE}, command)
    operator.stop()
    try:
        yield process
        assert "Traceback" not in process.log(), process.log()
    finally:
        process.stop()
        operator.start()


def router(workspace: Workspace) -> tuple[str, bool]:
    """The image of the routers, and whether their configuration is of the later release."""
    template = workspace.get("deployment", "qwen-router")["spec"]["template"]
    config = workspace.get("configmap", "qwen-router")["data"]["haproxy.cfg"]
    return template["spec"]["containers"][0]["image"], "of a later release" in config


def test_an_upgrade_of_the_operator_writes_no_router_and_an_edit_brings_the_later_one(
    qwen: Workspace, audit: AuditLog, upgraded: OperatorProcess
) -> None:
    generation = qwen.get("deployment", "qwen-router")["metadata"]["generation"]
    before, mark = router(qwen), audit.mark()
    upgraded.start()
    eventually(
        lambda: "Routers keep" in qwen.condition("qwen", "Ready")["message"],
        seconds=WAIT_SECONDS,
        what=lambda: f"status names the older routers: {qwen.condition('qwen', 'Ready')}",
    )
    writes = [w for w in audit.writes(mark, namespace=qwen.namespace) if w.resource not in TELLING]
    assert [w for w in writes if w.name == "qwen-router"] == []
    assert (router(qwen), qwen.get("deployment", "qwen-router")["metadata"]["generation"]) == (before, generation)
    config = qwen.get("configmap", "qwen-router")["data"]["haproxy.cfg"]
    qwen.kubectl("patch", "configmap", "qwen-router", "--type=merge", '--patch={"data":{"haproxy.cfg":"global"}}')
    eventually(
        lambda: qwen.get("configmap", "qwen-router")["data"]["haproxy.cfg"] == config,
        seconds=WAIT_SECONDS,
        what="the configuration is restored as it was",
    )
    assert router(qwen) == before
    qwen.patch("qwen", {"router": {"podTemplate": {"annotations": {"example.com/renewed": "1"}}}})
    eventually(lambda: router(qwen) == (IMAGE, True), seconds=WAIT_SECONDS, what=lambda: f"renewed: {router(qwen)}")
