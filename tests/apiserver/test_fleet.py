"""Changes of the owner's on a real API server: few InferenceDeployments at a time, also over a restart."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from e2e.localkube.waiting import eventually
from inference_operator.fleet.rollout_slots import TURN_ANNOTATION
from inference_operator.manifest import Manifest
from tests.testing.operated_cluster import SETTINGS, free_lease
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QWEN, Workspace

WAIT_SECONDS = 180
NAMES = ("a", "b", "c")
CANARY = "c"
NO_NODE = {"kubernetes.io/hostname": "no-node-has-this-name"}
"""Where no router can run: what a bad default does."""
LATER_IMAGE = "docker.io/vllm/vllm-openai:v9.9.9"


def changed(
    account: Path, log: Path, workspace: Workspace, settings: Mapping[str, str], **rollouts: object
) -> OperatorProcess:
    """An operator with other settings, and this namespace alone."""
    told = {"maxConcurrent": 1, "canary": f"{workspace.namespace}/{CANARY}", **rollouts}
    added = {**settings, "ROLLOUTS": json.dumps(told), "NAMESPACES": workspace.namespace}
    return OperatorProcess(account, log, {**SETTINGS, **added})


def of_routers(defaults: object) -> Mapping[str, str]:
    """The setting with these defaults of routers."""
    return {"ROUTER_DEFAULTS": json.dumps(defaults)}


@pytest.fixture
def fleet(workspace: Workspace, operator: OperatorProcess) -> Iterator[Workspace]:
    """A workspace in which several InferenceDeployments serve, and the operator has stopped."""
    for name in NAMES:
        workspace.create(name, QWEN)
    for name in NAMES:
        workspace.settled(name)
        workspace.settled(name, "Reconciling", "False")
    operator.stop()
    yield workspace
    operator.start()


def in_turn(workspace: Workspace) -> Sequence[str]:
    """The InferenceDeployments with a recorded turn."""
    return [name for name in NAMES if TURN_ANNOTATION.key in routers(workspace, name)["metadata"]["annotations"]]


def replacing(workspace: Workspace) -> Sequence[str]:
    """Those of them whose pods are not all new and ready. A turn whose pods are is removed by the next write."""
    found = {name: routers(workspace, name) for name in in_turn(workspace)}
    return [name for name, one in found.items() if not _is_complete(one)]


def _is_complete(deployment: Manifest) -> bool:
    status, wanted = deployment["status"], deployment["spec"]["replicas"]
    seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return seen and all(status.get(name) == wanted for name in ("replicas", "updatedReplicas", "readyReplicas"))


def routers(workspace: Workspace, name: str) -> Manifest:
    """The Deployment of the routers of one."""
    return workspace.get("deployment", f"{name}-router")


def has(workspace: Workspace, name: str, text: str) -> bool:
    """Whether a pod template of routers has a text."""
    return text in json.dumps(routers(workspace, name)["spec"]["template"])


def test_a_bad_default_reaches_the_canary_alone_and_a_corrected_one_reaches_all_one_after_the_other(
    fleet: Workspace, account: Path, tmp_path: Path
) -> None:
    bad = changed(account, tmp_path / "bad", fleet, of_routers({"scheduling": {"nodeSelector": NO_NODE}}))
    bad.start()
    others = [name for name in NAMES if name != CANARY]
    try:
        fleet.settled(CANARY, "Renewed", "False", reason="RollingOut")
        for name in others:
            fleet.settled(name, "Renewed", "False", reason="WaitingForTurn")
        bad.kill()
        free_lease(fleet.cluster)
        bad.start()  # a new process knows it from the cluster
        fleet.settled(CANARY, "RouterAvailable", reason="RollingOut")
        assert in_turn(fleet) == [CANARY]
        assert [name for name in NAMES if has(fleet, name, "no-node-has")] == [CANARY]
        waiting = f'infd_rollout_resources{{state="waiting"}} {len(others)}.0'
        eventually(lambda: waiting in bad.metrics(), seconds=WAIT_SECONDS, what=bad.metrics)
    finally:
        bad.stop()

    setting = {"podTemplate": {"annotations": {"example.com/setting": "good"}}}
    good = changed(account, tmp_path / "good", fleet, of_routers(setting))
    good.start()
    try:
        most, seen = 0, set[str]()

        def done() -> bool:
            nonlocal most
            seen.update(in_turn(fleet))
            most = max(most, len(replacing(fleet)))
            return all(has(fleet, name, "example.com/setting") for name in NAMES) and not in_turn(fleet)

        eventually(done, seconds=WAIT_SECONDS, what=lambda: f"all are changed; in their turn: {in_turn(fleet)}")
        assert most <= 1, "pods of routers may all be new before anybody looks"
        assert seen
        eventually(
            lambda: not any(fleet.condition(name, "Renewed") for name in NAMES),
            seconds=WAIT_SECONDS,
            what="no InferenceDeployment has the condition",
        )
    finally:
        good.stop()
    assert "Traceback" not in bad.log() + good.log()


def image(workspace: Workspace, name: str) -> str:
    """The image of the engines of one."""
    template = workspace.get("deployment", f"{name}-engine")["spec"]["template"]
    found: str = template["spec"]["containers"][0]["image"]
    return found


@pytest.mark.full
def test_engines_are_renewed_when_the_window_opens_one_after_the_other_and_the_canary_first(
    fleet: Workspace, account: Path, tmp_path: Path
) -> None:
    opens = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=2)
    closes = opens + timedelta(hours=1)
    window = {"start": f"{opens:%M %H} * * *", "end": f"{closes:%M %H} * * *"}
    later = changed(account, tmp_path / "later", fleet, {"GPU_ENGINE_IMAGE": LATER_IMAGE}, renewal=window)
    later.start()
    try:
        for name in NAMES:
            fleet.settled(name, "EnginesAvailable", reason="EnginesOutdated")
            said = fleet.condition(name, "Ready")["message"]
            assert f"The operator renews them from {opens:%Y-%m-%d %H:%M} UTC on" in said
        assert LATER_IMAGE not in {image(fleet, name) for name in NAMES}
        assert datetime.now(UTC) < opens, "the window has not opened yet"
        order: list[str] = []

        def done() -> bool:
            renewed = [name for name in NAMES if image(fleet, name) == LATER_IMAGE]
            order.extend(name for name in renewed if name not in order)
            return len(renewed) == len(NAMES)

        eventually(done, seconds=WAIT_SECONDS + 120, what=lambda: f"all engines are renewed: {order}")
        assert order[0] == CANARY
        assert datetime.now(UTC) >= opens
        for name in NAMES:
            fleet.settled(name, "EnginesAvailable")
    finally:
        later.stop()
    assert "Traceback" not in later.log()
