"""An upgrade of the operator writes no router and no engine, and says which are older; `infd renew` renews them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.waiting import eventually
from tests.apiserver.later_release import ATTACK
from tests.testing.infd_command import infd
from tests.testing.operated_cluster import SETTINGS
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QWEN, Workspace

IMAGE, ENGINE_IMAGE = "example.com/router:later", "docker.io/vllm/vllm-openai:v9.9.9"
WAIT_SECONDS = 120
COMMITTED = "committed"
"""A resource that Flux applies."""


@pytest.fixture
def upgraded(operator: OperatorProcess, account: Path, tmp_path: Path, qwen: Workspace) -> Iterator[OperatorProcess]:
    """A later release in the place of the operator, with other images. Two resources are served by then."""
    qwen.create(COMMITTED, QWEN)
    qwen.settled(COMMITTED)
    qwen.settled(COMMITTED, "Reconciling", "False")
    qwen.kubectl("label", "infd", COMMITTED, "kustomize.toolkit.fluxcd.io/name=models")
    command = (sys.executable, "-m", "tests.apiserver.later_release")
    images = {"ROUTER_IMAGE": IMAGE, "GPU_ENGINE_IMAGE": ENGINE_IMAGE}
    process = OperatorProcess(account, tmp_path / "log", {**SETTINGS, **images}, command)
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


def engine(workspace: Workspace) -> tuple[str, int]:
    """The image of the engines, and the generation of their Deployment."""
    deployment = workspace.get("deployment", "qwen-engine")
    return deployment["spec"]["template"]["spec"]["containers"][0]["image"], deployment["metadata"]["generation"]


def renew(workspace: Workspace, *arguments: str) -> tuple[int, str, str]:
    """`infd renew`: its exit status, output and complaints."""
    return infd(workspace.cluster, "renew", f"--namespace={workspace.namespace}", *arguments)


def test_an_upgrade_of_the_operator_writes_no_router_and_no_engine_and_the_command_of_the_status_brings_the_later_ones(
    qwen: Workspace, audit: AuditLog, upgraded: OperatorProcess
) -> None:
    generation, engine_before = qwen.get("deployment", "qwen-router")["metadata"]["generation"], engine(qwen)
    before, mark = router(qwen), audit.mark()
    upgraded.start()
    for name in ("qwen", COMMITTED):
        said = qwen.settled(name, "RouterAvailable", reason="RouterVulnerable")["message"]
        assert ATTACK in said
        assert said.endswith(f"run `infd renew --routers -n {qwen.namespace} {name}`.")
        qwen.settled(name, "EnginesAvailable", reason="EnginesOutdated")
        assert f"run `infd renew --engines -n {qwen.namespace} {name}`." in qwen.condition(name, "Ready")["message"]
    assert [w for w in audit.changes(mark, namespace=qwen.namespace) if w.name == "qwen-router"] == []
    assert (router(qwen), qwen.get("deployment", "qwen-router")["metadata"]["generation"]) == (before, generation)
    config = qwen.get("configmap", "qwen-router")["data"]["haproxy.cfg"]
    qwen.kubectl("patch", "configmap", "qwen-router", "--type=merge", '--patch={"data":{"haproxy.cfg":"global"}}')
    eventually(
        lambda: qwen.get("configmap", "qwen-router")["data"]["haproxy.cfg"] == config,
        seconds=WAIT_SECONDS,
        what="the configuration is restored as it was",
    )
    assert (router(qwen), engine(qwen)) == (before, engine_before)

    status, output, complaints = renew(qwen, "--all", "--routers")
    where = qwen.namespace
    assert (status, output.splitlines()[-1]) == (1, f"{where}/qwen: all routers are renewed."), complaints
    assert router(qwen) == (IMAGE, True)
    assert qwen.condition("qwen", "RouterAvailable")["reason"] == "Serving"
    assert complaints.startswith(f"{where}/{COMMITTED}: Flux applies this resource from its source")
    assert qwen.condition(COMMITTED, "RouterAvailable")["reason"] == "RouterVulnerable"
    renewed = qwen.get("infd", "qwen")
    annotation = renewed["spec"]["router"]["podTemplate"]["annotations"]
    assert annotation == {"renewed-at-generation": str(renewed["metadata"]["generation"] - 1)}
    again = renew(qwen, "qwen", "--routers")
    assert again == (0, f"{where}/qwen: routers are as this release builds them. Nothing was changed.\n", "")
    assert qwen.get("infd", "qwen")["metadata"]["generation"] == renewed["metadata"]["generation"]
    assert engine(qwen) == engine_before

    status, output, complaints = renew(qwen, "qwen")
    first, *_, last = output.splitlines()
    assert (status, first) == (0, f"{where}/qwen: routers are as this release builds them. Nothing was changed.")
    assert (last, complaints) == (f"{where}/qwen: all engines are renewed.", "")
    assert engine(qwen)[0] == ENGINE_IMAGE
    assert qwen.condition("qwen", "EnginesAvailable")["reason"] == "Serving"
    generation = qwen.get("infd", "qwen")["metadata"]["generation"]
    again = renew(qwen, "qwen", "--engines")
    assert again == (0, f"{where}/qwen: engines are as this release builds them. Nothing was changed.\n", "")
    assert qwen.get("infd", "qwen")["metadata"]["generation"] == generation
