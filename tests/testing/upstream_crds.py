"""CustomResourceDefinitions of other projects, from their Go modules."""

import json
import subprocess
from pathlib import Path

from e2e.cluster.toolchain import go_command, go_environment

E2E = Path(__file__).parents[2] / "e2e"
PROMETHEUS_OPERATOR = "prometheus-operator/prometheus-operator"
KUSTOMIZE_CONTROLLER = "fluxcd/kustomize-controller"


def prometheus_operator_crd(plural: str) -> Path:
    """The file of a CRD of prometheus-operator."""
    folder = _module(E2E / "prometheus_operator", PROMETHEUS_OPERATOR)
    return folder / "example" / "prometheus-operator-crd" / f"monitoring.coreos.com_{plural}.yaml"


def flux_kustomization_crd() -> Path:
    """The file of Flux's CRD for Kustomizations."""
    folder = _module(E2E / "flux", KUSTOMIZE_CONTROLLER)
    return folder / "config" / "crd" / "bases" / "kustomize.toolkit.fluxcd.io_kustomizations.yaml"


def _module(pinned: Path, name: str) -> Path:
    """A module's folder in Go's cache, downloaded if it is missing. `pinned` has its version and checksum."""
    go = go_command(pinned / "go.mod")
    command = [str(go), "mod", "download", "-json", f"github.com/{name}"]
    answer = subprocess.run(command, cwd=pinned, env=go_environment(go), capture_output=True, text=True, check=True)
    return Path(json.loads(answer.stdout)["Dir"])
