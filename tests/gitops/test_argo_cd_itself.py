"""The customizations of argocd-cm in Argo CD's own code, which reads the ConfigMap and runs the scripts."""

import json
import subprocess
from typing import Any

import pytest

from e2e.deploy import manifests
from e2e.go_modules import ensure_argo_cd
from inference_operator.manifest import Manifest
from tests.gitops.recorded import FOLDER, recorded
from tests.gitops.test_argo_cd import ACTIONS, HEALTH_TESTS, health, loaded
from tests.status.test_states import STATES

pytestmark = pytest.mark.full


def argo_cd(*asked: Manifest) -> list[dict[str, Any]]:
    """What Argo CD makes of each object: health, offered actions, and the object after `action`."""
    done = subprocess.run(
        [ensure_argo_cd(), manifests.ARGO_CD_CONFIG_MAP],
        input=json.dumps(asked),
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_argo_cd_gives_the_recorded_objects_the_expected_health() -> None:
    found = argo_cd(*({"object": loaded(FOLDER, case["inputPath"])} for case in HEALTH_TESTS))
    assert [{name: one[name] for name in ("status", "message")} for one in found] == [
        case["healthStatus"] for case in HEALTH_TESTS
    ]


def test_argo_cd_offers_and_runs_the_expected_actions() -> None:
    offered, acted = ACTIONS["discoveryTests"], ACTIONS["actionTests"]
    folder = FOLDER / "actions"
    found = argo_cd(*({"object": loaded(folder, case["inputPath"])} for case in offered))
    assert [one["actions"] for one in found] == [case["result"] for case in offered]
    found = argo_cd(*({"object": loaded(folder, case["inputPath"]), "action": case["action"]} for case in acted))
    assert [one["result"] for one in found] == [loaded(folder, case["expectedOutputPath"]) for case in acted]


def test_argo_cd_agrees_with_the_lua_interpreter_of_the_other_tests_on_every_state() -> None:
    states = [recorded(situation, results) for situation, results, _ in STATES.values()]
    found = argo_cd(*({"object": state} for state in states))
    assert [{name: one[name] for name in ("status", "message")} for one in found] == [health(one) for one in states]
