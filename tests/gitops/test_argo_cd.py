"""Argo CD's scripts on recorded objects, in Lua 5.1 with the libraries that Argo CD opens."""

import copy
from pathlib import Path
from typing import Any

import lupa.lua51
import pytest
import yaml

from e2e.deploy import manifests
from inference_operator.manifest import Manifest, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Paused
from tests.gitops.recorded import FOLDER, files, recorded
from tests.status.test_states import STATES
from tests.testing.builders import ENGINES, ROUTERS, inference_deployment, inputs, planned
from tests.testing.for_each import for_each

LIBRARIES = frozenset({"_G", "package", "table", "os"})
"""Argo CD opens no others for a customization in a ConfigMap (argoproj/argo-cd v2.13, util/lua/lua.go, runLua)."""
HEALTH_TESTS = yaml.safe_load((FOLDER / "health_test.yaml").read_text())["tests"]
ACTIONS = yaml.safe_load((FOLDER / "actions" / "action_test.yaml").read_text())


def run(script: Path, found: Manifest) -> Any:  # noqa: ANN401 - any JSON
    """What the script returns for an object."""
    lua = lupa.lua51.LuaRuntime()
    variables = lua.globals()
    for name in set(variables["package"]["loaded"]) - LIBRARIES:
        variables[name] = None
    variables["obj"] = lua.table_from(found, recursive=True)
    return plain(lua.execute(script.read_text()), found)


def plain(value: Any, like: Any) -> Any:  # noqa: ANN401 - any JSON
    """A Lua table as JSON. An empty table is what it was before, as in Argo CD's `cleanReturnedObj`."""
    if lupa.lua51.lua_type(value) != "table":
        return value
    if not list(value):
        return like if like in ({}, []) else {}
    if isinstance(like, list):
        return [plain(value[number + 1], one) for number, one in enumerate(like)]
    known = like if isinstance(like, dict) else {}
    return {name: plain(inner, known.get(name)) for name, inner in value.items()}


def health(found: Manifest) -> Manifest:
    result: Manifest = run(FOLDER / "health.lua", found)
    return result


def acted(action: str, found: Manifest) -> Manifest:
    result: Manifest = run(FOLDER / "actions" / action / "action.lua", found)
    return result


def loaded(folder: Path, path: str) -> Manifest:
    found: Manifest = yaml.safe_load((folder / path).read_text())
    return found


def test_the_recorded_objects_are_what_the_operator_reports_today() -> None:
    outdated = [str(path) for path, text in files().items() if path.read_text() != text]
    assert not outdated, "run `make crd`"
    data = {*FOLDER.rglob("*.yaml")}
    assert data == set(files())


@pytest.mark.parametrize("case", HEALTH_TESTS, ids=lambda case: Path(case["inputPath"]).stem)
def test_the_health_script_gives_the_expected_health_and_message(case: Manifest) -> None:
    assert health(loaded(FOLDER, case["inputPath"])) == case["healthStatus"]


@for_each(STATES)
def test_argo_cd_shows_every_state_as_its_conditions_say(state: str) -> None:
    situation, results, _ = STATES[state]
    found = recorded(situation, results)
    ready, reconciling, stalled = found["status"]["conditions"][:3]
    shown = health(found)["status"]
    assert (shown == "Degraded") == (stalled["status"] == "True")
    assert (shown == "Suspended") == (ready["reason"] == "Paused")
    settled = ready["status"] == "True" and "True" not in (reconciling["status"], stalled["status"])
    assert (shown == "Healthy") == (settled and ready["reason"] != "Paused")


@pytest.mark.parametrize("case", ACTIONS["discoveryTests"], ids=lambda case: Path(case["inputPath"]).stem)
def test_argo_cd_offers_the_actions_that_make_sense(case: Manifest) -> None:
    offered = run(FOLDER / "actions" / "discovery.lua", loaded(FOLDER / "actions", case["inputPath"]))
    assert [{"name": name, **options} for name, options in sorted(offered.items())] == case["result"]
    assert {folder.parent.name for folder in FOLDER.glob("actions/*/action.lua")} == set(offered)


@pytest.mark.parametrize("case", ACTIONS["actionTests"], ids=lambda case: case["action"])
def test_an_action_changes_the_object_as_expected(case: Manifest) -> None:
    before = loaded(FOLDER / "actions", case["inputPath"])
    assert acted(case["action"], before) == loaded(FOLDER / "actions", case["expectedOutputPath"])


def test_the_operator_obeys_the_actions_pause_and_resume() -> None:
    raw = inference_deployment()
    paused = acted("pause", raw)
    assert isinstance(outcome(inputs(paused)), Paused)
    assert acted("resume", paused) == raw


@pytest.mark.parametrize(
    ("action", "pods", "spec"),
    [
        ("renew", ENGINES, {"podTemplate": {"annotations": {"team": "chat"}}}),
        ("renew-routers", ROUTERS, {"router": {"podTemplate": {"annotations": {"team": "chat"}}}}),
    ],
)
def test_an_action_to_renew_replaces_the_pods_each_time_and_keeps_other_annotations(
    action: str, pods: Ref, spec: Manifest
) -> None:
    raw = inference_deployment(**spec)
    templates = []
    for generation in (1, 2, 3):
        raw = {**copy.deepcopy(raw), "metadata": {**raw["metadata"], "generation": generation}}
        template = planned(raw).desired[pods]["spec"]["template"]
        assert template["metadata"]["annotations"]["team"] == "chat"
        assert template not in templates
        templates.append(template)
        raw = acted(action, raw)


def test_no_child_has_a_label_or_annotation_by_which_argo_cd_would_track_its_resource() -> None:
    raw = inference_deployment()
    tracked = {"app.kubernetes.io/instance": "models", "argocd.argoproj.io/instance": "models"}
    noted = {"argocd.argoproj.io/tracking-id": "models:infd", "argocd.argoproj.io/sync-wave": "1"}
    marked = {**raw, "metadata": {**raw["metadata"], "labels": tracked, "annotations": noted}}
    desired = planned(marked).desired
    assert desired == planned(raw).desired
    for child in desired.values():
        assert child["metadata"]["ownerReferences"][0]["uid"] == raw["metadata"]["uid"]
        assert not {"app.kubernetes.io/instance", *noted} & {
            *child["metadata"].get("labels", {}),
            *child["metadata"].get("annotations", {}),
        }


def test_the_config_map_contains_the_scripts() -> None:
    data = yaml.safe_load(manifests.ARGO_CD_CONFIG_MAP.read_text())["data"]
    assert (
        data["resource.customizations.health.inference-operator.dev_InferenceDeployment"]
        == (FOLDER / "health.lua").read_text()
    )
    actions = yaml.safe_load(data["resource.customizations.actions.inference-operator.dev_InferenceDeployment"])
    assert actions["discovery.lua"] == (FOLDER / "actions" / "discovery.lua").read_text()
    assert {one["name"]: one["action.lua"] for one in actions["definitions"]} == {
        path.parent.name: path.read_text() for path in FOLDER.glob("actions/*/action.lua")
    }
