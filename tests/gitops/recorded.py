"""Records InferenceDeployments with the status that the operator reports, as Argo CD's test data.

`python -m tests.gitops.recorded` writes them in the layout of Argo CD's own folder `resource_customizations`.
"""

import copy
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from inference_operator.api.spec import Spec
from inference_operator.cli.edit.edits import ENGINES, ROUTERS
from inference_operator.manifest import API_VERSION, GROUP, KIND, Manifest
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.write_results import WriteResult
from tests import conftest as settings_of_tests  # noqa: F401 - the same settings, whoever records
from tests.status.situations import reported
from tests.status.test_states import STATES

ARGO_CD = Path(__file__).parents[2] / "manifests" / "argo-cd"
FOLDER = ARGO_CD / "resource_customizations" / GROUP / KIND
WIDTH = 140
"""Maximum characters of a line where YAML can break it."""

HEALTH: Mapping[str, tuple[str, str]] = {
    "new": ("first start, nothing there yet", "Progressing"),
    "inspecting": ("a model that has to be inspected", "Progressing"),
    "loading": ("first start, engines load", "Progressing"),
    "no-node": ("waiting for a node", "Progressing"),
    "serving": ("serving", "Healthy"),
    "scaled-to-zero": ("scaled to zero", "Healthy"),
    "rolling-out": ("rolling, old pods serving", "Progressing"),
    "engines-down": ("had served, none ready now", "Progressing"),
    "refused": ("managed argument", "Degraded"),
    "refused-edit-while-serving": ("refused edit, old pods serving", "Degraded"),
    "deadline-exceeded": ("first start, without end", "Degraded"),
    "name-conflict": ("a foreign Service", "Degraded"),
    "paused": ("paused, serving", "Suspended"),
    "paused-without-engines": ("paused, engines down for ever", "Suspended"),
}
"""Name of each file with the state in it and the health that Argo CD must show."""


def recorded(situation: Inputs, results: Sequence[WriteResult]) -> Manifest:
    """The resource as the API server shows it after the operator has reported."""
    found = situation.resource
    spec = found.spec.model_dump(mode="json", by_alias=True, exclude_unset=True) if isinstance(found.spec, Spec) else {}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": found.key.name, "namespace": found.key.namespace, "generation": found.generation},
        "spec": spec,
        "status": reported(situation, results).status.dump(),
    }


def state(name: str) -> Manifest:
    """The resource in a state of the status tests."""
    situation, results, _ = STATES[name]
    return recorded(situation, results)


def _with_spec(found: Manifest, **changes: object) -> Manifest:
    changed = copy.deepcopy(found)
    changed["spec"] |= changes
    return changed


def files() -> dict[Path, str]:
    """Every file of test data with its content."""
    objects = {FOLDER / "testdata" / f"{name}.yaml": state(of) for name, (of, _) in HEALTH.items()}
    unobserved = copy.deepcopy(state("serving"))
    unobserved["metadata"]["generation"] += 1
    objects[FOLDER / "testdata" / "edited.yaml"] = unobserved
    unseen = {key: value for key, value in unobserved.items() if key != "status"}
    objects[FOLDER / "testdata" / "unseen.yaml"] = {**unseen, "status": {"observedGeneration": -1}}
    return {
        **{path: _text(found) for path, found in objects.items()},
        FOLDER / "health_test.yaml": _text(_health_tests()),
        **_action_files(),
    }


def _health_tests() -> Manifest:
    waiting = {"status": "Progressing", "message": "Waiting for the operator."}
    tests = [{"healthStatus": waiting, "inputPath": f"testdata/{name}.yaml"} for name in ("unseen", "edited")]
    for name, (of, health) in HEALTH.items():
        said = {found["type"]: found for found in state(of)["status"]["conditions"]}
        told = {"Degraded": "Stalled", "Progressing": "Reconciling"}.get(health, "Ready")
        answer = {"status": health, "message": said[told]["message"]}
        tests.append({"healthStatus": answer, "inputPath": f"testdata/{name}.yaml"})
    return {"tests": tests}


def _action_files() -> dict[Path, str]:
    serving = state("serving")
    objects = {
        "serving": serving,
        "paused": _with_spec(serving, paused=True),
        "routed-by-others": state("routed by others"),
        "renewed": _with_spec(serving, **ENGINES.edit(serving)),
        "renewed-routers": _with_spec(serving, **ROUTERS.edit(serving)),
    }
    tests: Manifest = {
        "discoveryTests": [
            {"inputPath": f"testdata/{name}.yaml", "result": _offered(offered)}
            for name, offered in (
                ("serving", {"pause", "renew", "renew-routers"}),
                ("paused", {"resume"}),
                ("routed-by-others", {"pause", "renew"}),
            )
        ],
        "actionTests": [
            {"action": action, "inputPath": f"testdata/{before}.yaml", "expectedOutputPath": f"testdata/{after}.yaml"}
            for action, before, after in (
                ("pause", "serving", "paused"),
                ("resume", "paused", "serving"),
                ("renew", "serving", "renewed"),
                ("renew-routers", "serving", "renewed-routers"),
            )
        ],
    }
    folder = FOLDER / "actions"
    return {
        folder / "action_test.yaml": _text(tests),
        **{folder / "testdata" / f"{name}.yaml": _text(found) for name, found in objects.items()},
    }


def _offered(names: Collection[str]) -> list[Manifest]:
    return [{"name": name, "disabled": name not in names} for name in ("pause", "renew", "renew-routers", "resume")]


def _text(found: Any) -> str:  # noqa: ANN401 - YAML's own
    return yaml.safe_dump(found, sort_keys=False, width=WIDTH)


def main() -> None:
    """Write them."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
