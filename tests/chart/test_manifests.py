"""The plain manifests and the chart install the same objects."""

import copy
import subprocess
import tarfile
from collections.abc import Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path

import pytest
import yaml

from e2e.deploy import manifests
from e2e.go_modules import ensure_kustomize
from e2e.localkube.binaries import ensure_command
from inference_operator.manifest import Manifest
from tests.chart.helm import CHART, CRDS_CHART, NAMESPACE, Helm

FOLDER = manifests.FOLDER
CI = sorted((CHART / "ci").glob("*-values.yaml"))


def kustomized(folder: Path, *command: str) -> list[Manifest]:
    """What `kubectl kustomize` builds, or another command; objects of the caller's own."""
    return copy.deepcopy(_built(*(command or (str(ensure_command("kubectl")), "kustomize")), str(folder)))


@cache
def _built(*command: str) -> list[Manifest]:
    built = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert not built.stderr, "a warning of kustomize"
    return list(yaml.load_all(built.stdout, yaml.CSafeLoader))


def by_name(objects: Sequence[Manifest]) -> dict[tuple[str, str, str], Manifest]:
    """The objects by kind, namespace and name, without the namespace that only plain manifests create."""
    found = {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in objects}
    assert len(found) == len(objects)
    found.pop(("Namespace", "", NAMESPACE), None)
    (deployment,) = (one for (kind, _, _), one in found.items() if kind == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["env"].sort(key=itemgetter("name"))  # kustomize moves what it changes, and no variable refers to another
    assert not any("$(" in variable["value"] for variable in container["env"])
    return found


def test_the_generated_manifests_are_up_to_date_with_the_chart() -> None:
    outdated = [str(path) for path, text in manifests.files().items() if path.read_text() != text]
    assert not outdated, "run `make crd`"


def test_the_kustomize_base_equals_the_chart_with_default_values() -> None:
    assert by_name(kustomized(FOLDER / "base")) == by_name(manifests.rendered())


@pytest.mark.parametrize("overlay", ["namespaced", "monitoring", "air-gapped"])
def test_an_overlay_equals_the_chart_with_the_values_of_the_same_name(overlay: str) -> None:
    built = by_name(kustomized(FOLDER / "overlays" / overlay))
    assert built == by_name(manifests.with_values(overlay))
    assert built != by_name(manifests.rendered())


@pytest.mark.parametrize("folder", ["base", "overlays/namespaced", "overlays/monitoring", "overlays/air-gapped"])
def test_kustomize_itself_builds_what_kubectl_builds(folder: str) -> None:
    itself = kustomized(FOLDER / folder, str(ensure_kustomize()), "build")
    assert by_name(itself) == by_name(kustomized(FOLDER / folder))


def test_install_yaml_equals_the_kustomize_base() -> None:
    installed = [one for one in yaml.safe_load_all((FOLDER / "install.yaml").read_text()) if one]
    assert by_name(installed) == by_name(kustomized(FOLDER / "base"))
    first = next(one["kind"] for one in installed if one["kind"] != "CustomResourceDefinition")
    assert first == "Namespace", "kubectl applies a file from its beginning"


def test_the_manifests_have_no_marks_of_helm() -> None:
    assert "helm" not in (FOLDER / "install.yaml").read_text().lower()


@pytest.mark.parametrize("values", CI, ids=lambda path: path.stem)
def test_helm_lint_accepts_every_values_file_of_the_folder_ci(helm: Helm, values: Path) -> None:
    done = helm.run("lint", "--strict", str(CHART), f"--values={values}")
    assert done.returncode == 0, done.stdout


def test_a_packaged_chart_contains_the_crd_and_no_values_files_of_the_folder_ci(helm: Helm, tmp_path: Path) -> None:
    for source in (CHART, CRDS_CHART):
        assert helm.run("lint", "--strict", str(source)).returncode == 0
        assert helm.run("package", str(source), f"--destination={tmp_path}").returncode == 0
        (package,) = tmp_path.glob(f"{source.name}-0*.tgz")
        with tarfile.open(package) as files:
            names = files.getnames()
        assert f"{source.name}/files/crd.yaml" in names
        assert not [name for name in names if "/ci/" in name]
