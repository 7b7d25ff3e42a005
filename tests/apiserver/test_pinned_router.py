"""An upgrade of the operator writes no router, and says which are vulnerable; `infd renew` brings the later ones."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.audit import TELLING, AuditLog
from e2e.waiting import eventually
from tests.apiserver.later_release import ATTACK
from tests.testing.operated_cluster import SETTINGS
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QWEN, Workspace

IMAGE = "example.com/router:later"
WAIT_SECONDS = 120
COMMITTED = "committed"
"""A resource that Flux applies."""


@pytest.fixture
def upgraded(operator: OperatorProcess, account: Path, tmp_path: Path, qwen: Workspace) -> Iterator[OperatorProcess]:
    """A later release in the place of the operator, with another router image. Two resources are served by then."""
    qwen.create(COMMITTED, QWEN)
    qwen.settled(COMMITTED)
    qwen.settled(COMMITTED, "Reconciling", "False")
    qwen.kubectl("label", "infd", COMMITTED, "kustomize.toolkit.fluxcd.io/name=models")
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


def renew(workspace: Workspace, *arguments: str) -> tuple[int, str, str]:
    """`infd renew` as a user runs it: its exit status, output and complaints."""
    ended = subprocess.run(
        [
            Path(sys.executable).with_name("infd"),
            "renew",
            "--routers",
            f"--namespace={workspace.namespace}",
            *arguments,
        ],
        env={**os.environ, "KUBECONFIG": str(workspace.cluster.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stdout, ended.stderr


def test_an_upgrade_of_the_operator_writes_no_router_and_the_command_of_the_status_brings_the_later_one(
    qwen: Workspace, audit: AuditLog, upgraded: OperatorProcess
) -> None:
    generation = qwen.get("deployment", "qwen-router")["metadata"]["generation"]
    before, mark = router(qwen), audit.mark()
    upgraded.start()
    for name in ("qwen", COMMITTED):
        said = qwen.settled(name, "RouterAvailable", reason="RouterVulnerable")["message"]
        assert ATTACK in said
        assert said.endswith(f"run `infd renew --routers -n {qwen.namespace} {name}`.")
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

    status, output, complaints = renew(qwen, "--all")
    where = qwen.namespace
    assert (status, output.splitlines()[-1]) == (1, f"{where}/qwen: all routers are renewed."), complaints
    assert router(qwen) == (IMAGE, True)
    assert qwen.condition("qwen", "RouterAvailable")["reason"] == "Serving"
    assert complaints.startswith(f"{where}/{COMMITTED}: Flux applies this resource from its source")
    assert qwen.condition(COMMITTED, "RouterAvailable")["reason"] == "RouterVulnerable"
    renewed = qwen.get("infd", "qwen")
    annotation = renewed["spec"]["router"]["podTemplate"]["annotations"]
    assert annotation == {"renewed-at-generation": str(renewed["metadata"]["generation"] - 1)}
    again = renew(qwen, "qwen")
    assert again == (0, f"{where}/qwen: routers are as this release builds them. Nothing was changed.\n", "")
    assert qwen.get("infd", "qwen")["metadata"]["generation"] == renewed["metadata"]["generation"]
