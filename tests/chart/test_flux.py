"""What the pages about Flux and Argo CD show conforms to the CRDs of both."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from inference_operator.manifest import Manifest
from tests.chart.helm import REPOSITORY, Helm
from tests.testing.structural import schema_errors
from tests.testing.upstream_crds import argo_cd_application_crd, flux_helm_release_crd, flux_kustomization_crd

PAGE = (REPOSITORY / "docs" / "how-to" / "flux.md").read_text()
SHOWN, CHECKED_ALONE, OF_HELM = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
KUSTOMIZATIONS: dict[str, Manifest] = {one["metadata"]["name"]: one for one in yaml.safe_load_all(SHOWN)}


APPLICATIONS = [
    one
    for text in re.findall(r"```yaml\n(.*?)```", (REPOSITORY / "docs" / "how-to" / "argo-cd.md").read_text(), re.DOTALL)
    for one in yaml.safe_load_all(text)
    if one.get("kind") == "Application"
]


def errors(found: Manifest, file: Callable[[], Path] = flux_kustomization_crd) -> list[str]:
    crd, asked = yaml.safe_load(file().read_text()), found["apiVersion"].rpartition("/")[2]
    (version,) = (one for one in crd["spec"]["versions"] if one["name"] == asked)
    return schema_errors(found, version["schema"]["openAPIV3Schema"])


@pytest.mark.parametrize("name", KUSTOMIZATIONS)
def test_a_documented_kustomization_conforms_to_the_crd_of_flux(name: str) -> None:
    found = KUSTOMIZATIONS[name]
    assert errors(found) == []
    wrong = {**found, "spec": {**found["spec"], "dependOn": []}}
    assert errors(wrong) == ["spec.dependOn: unknown field"]


def test_the_documented_release_conforms_and_its_values_are_those_of_the_chart(helm: Helm) -> None:
    repository, release = yaml.safe_load_all(OF_HELM)
    assert errors(release, flux_helm_release_crd) == []
    assert errors({**release, "spec": {"otter": 1, **release["spec"]}}, flux_helm_release_crd) != []
    assert release["spec"]["chartRef"] == {"kind": repository["kind"], "name": repository["metadata"]["name"]}
    capacity = release["spec"]["values"]["settings"]["capacity"]
    assert helm.objects(f"settings.capacity={capacity}")


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda one: one["metadata"]["name"])
def test_a_documented_application_conforms_to_the_crd_of_argo_cd(application: Manifest) -> None:
    assert len(APPLICATIONS) == 2
    assert errors(application, argo_cd_application_crd) == []
    wrong = {**application, "spec": {**application["spec"], "otter": 1}}
    assert errors(wrong, argo_cd_application_crd) == ["spec.otter: unknown field"]


def test_the_documented_health_checks_take_the_place_of_waiting_for_everything() -> None:
    models = KUSTOMIZATIONS["models"]
    waits = {name: value for name, value in models["spec"].items() if name != "wait"}
    assert errors({**models, "spec": {**waits, **yaml.safe_load(CHECKED_ALONE)}}) == []


def test_models_depend_on_the_operator_whose_folder_exists() -> None:
    operator, models = KUSTOMIZATIONS["inference-operator"], KUSTOMIZATIONS["models"]
    assert models["spec"]["dependsOn"] == [{"name": operator["metadata"]["name"]}]
    assert (REPOSITORY / operator["spec"]["path"] / "kustomization.yaml").is_file()
    assert all(one["spec"]["timeout"] and one["spec"]["wait"] for one in (operator, models))
