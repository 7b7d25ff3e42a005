"""The Kustomizations on the page about Flux conform to Flux's own CRD."""

import re

import pytest
import yaml

from inference_operator.manifest import Manifest
from tests.chart.helm import REPOSITORY
from tests.testing.structural import schema_errors
from tests.testing.upstream_crds import flux_kustomization_crd

PAGE = (REPOSITORY / "docs" / "how-to" / "flux.md").read_text()
SHOWN, CHECKED_ALONE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
KUSTOMIZATIONS: dict[str, Manifest] = {one["metadata"]["name"]: one for one in yaml.safe_load_all(SHOWN)}


def errors(found: Manifest) -> list[str]:
    crd = yaml.safe_load(flux_kustomization_crd().read_text())
    (version,) = (one for one in crd["spec"]["versions"] if one["name"] == "v1")
    return schema_errors(found, version["schema"]["openAPIV3Schema"])


@pytest.mark.parametrize("name", KUSTOMIZATIONS)
def test_a_documented_kustomization_conforms_to_the_crd_of_flux(name: str) -> None:
    found = KUSTOMIZATIONS[name]
    assert errors(found) == []
    wrong = {**found, "spec": {**found["spec"], "dependOn": []}}
    assert errors(wrong) == ["spec.dependOn: unknown field"]


def test_the_documented_health_checks_take_the_place_of_waiting_for_everything() -> None:
    models = KUSTOMIZATIONS["models"]
    waits = {name: value for name, value in models["spec"].items() if name != "wait"}
    assert errors({**models, "spec": {**waits, **yaml.safe_load(CHECKED_ALONE)}}) == []


def test_models_depend_on_the_operator_whose_folder_exists() -> None:
    operator, models = KUSTOMIZATIONS["inference-operator"], KUSTOMIZATIONS["models"]
    assert models["spec"]["dependsOn"] == [{"name": operator["metadata"]["name"]}]
    assert (REPOSITORY / operator["spec"]["path"] / "kustomization.yaml").is_file()
    assert all(one["spec"]["timeout"] and one["spec"]["wait"] for one in (operator, models))
