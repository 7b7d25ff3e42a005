"""Writes the plain manifests from the chart: `python -m e2e.deploy.manifests`.

They are what Helm renders, without the marks by which Helm knows the objects of a release. So `kubectl apply` and Helm
install the same operator, and one list of rights is enough.
"""

import copy
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from e2e.localkube.binaries import ensure_command

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "inference-operator"
FOLDER = REPOSITORY / "manifests"
ARGO_CD = FOLDER / "argo-cd"
ARGO_CD_CONFIG_MAP = ARGO_CD / "argocd-cm.yaml"
RESOURCE = ("inference-operator.dev", "InferenceDeployment")
CRD = REPOSITORY / "crds" / "inferencedeployments.yaml"
RELEASE, NAMESPACE = "inference-operator", "inference-operator-system"
HELM_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by")
HELM_ANNOTATION = "helm.sh/resource-policy"
GENERATED = "# Generated from the chart by `make crd`.\n"
WIDTH = 140
"""Maximum characters of a line where YAML can break it."""

Object = dict[str, Any]


def rendered(*flags: str) -> list[Object]:
    """The objects of the chart for these flags of `helm template`, without Helm's marks and without its test."""
    return [_without_marks(one) for one in copy.deepcopy(_templates(*flags)) if one]


@cache
def _templates(*flags: str) -> list[Object]:
    """Several of the generated files need the same objects."""
    command = [
        str(ensure_command("helm")),
        "template",
        RELEASE,
        str(CHART),
        f"--namespace={NAMESPACE}",
        "--skip-tests",
        *flags,
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout
    return list(yaml.load_all(text, yaml.CSafeLoader))


def with_values(name: str) -> list[Object]:
    """The objects of the chart for one of its `ci/*-values.yaml`."""
    return rendered(f"--values={CHART / 'ci' / f'{name}-values.yaml'}")


def operator_objects(*flags: str) -> str:
    """The objects of the operator without the CRD, for these flags of `helm template`."""
    return _text([one for one in rendered(*flags) if one["kind"] != "CustomResourceDefinition"])


def install(*flags: str) -> str:
    """One file that installs CRD, namespace and operator, for these flags of `helm template`."""
    namespace = (FOLDER / "base" / "namespace.yaml").read_text()
    return "---\n".join((GENERATED, CRD.read_text(), namespace, operator_objects(*flags)))


def files() -> dict[Path, str]:
    """Every generated file with its content."""
    return {
        FOLDER / "base" / "operator.yaml": GENERATED + operator_objects(),
        FOLDER / "overlays" / "namespaced" / "roles.yaml": GENERATED + _text(_added("namespaced")),
        FOLDER / "overlays" / "monitoring" / "monitoring.yaml": GENERATED + _text(_added("monitoring")),
        FOLDER / "install.yaml": install(),
        ARGO_CD_CONFIG_MAP: config_map(),
    }


def config_map() -> str:
    """The part of Argo CD's ConfigMap `argocd-cm` that contains the scripts for an InferenceDeployment."""
    folder, key = ARGO_CD.joinpath("resource_customizations", *RESOURCE), "_".join(RESOURCE)
    definitions = [
        {"name": path.parent.name, "action.lua": Script(path.read_text())}
        for path in sorted(folder.glob("actions/*/action.lua"))
    ]
    actions = {"discovery.lua": Script((folder / "actions" / "discovery.lua").read_text()), "definitions": definitions}
    data = {
        f"resource.customizations.health.{key}": Script((folder / "health.lua").read_text()),
        f"resource.customizations.actions.{key}": Script(_text([actions])),
    }
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm", "namespace": "argocd"}}
    return "# Generated from the scripts in resource_customizations by `make crd`.\n" + _text([{**head, "data": data}])


class Script(str):
    """Text that YAML shows line by line."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Writes scripts as literal blocks."""


_Dumper.add_representer(Script, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|"))


def _added(values: str) -> list[Object]:
    """The objects that the chart has only with one of its `ci/*-values.yaml`. Dashboards are shown line by line."""
    base = {_identity(one) for one in rendered()}
    added = [one for one in with_values(values) if _identity(one) not in base]
    for one in added:
        if one["kind"] == "ConfigMap":
            one["data"] = {name: Script(text) for name, text in one["data"].items()}
    return added


def _identity(one: Object) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def _without_marks(one: Object) -> Object:
    template = one.get("spec", {}).get("template", {})
    for metadata in filter(None, (one["metadata"], template.get("metadata"))):
        for label in HELM_LABELS:
            metadata.get("labels", {}).pop(label, None)
        metadata.get("annotations", {}).pop(HELM_ANNOTATION, None)
        if "annotations" in metadata and not metadata["annotations"]:
            del metadata["annotations"]
    return one


def _text(objects: list[Object]) -> str:
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=WIDTH)


def main() -> None:
    """Write them."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
