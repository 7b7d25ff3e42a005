"""CustomResourceDefinitions of other projects, from their Go modules."""

from pathlib import Path

from e2e.go_modules import MODULES
from e2e.localkube.binaries import module_folder


def prometheus_operator_crd(plural: str) -> Path:
    """The file of a CRD of prometheus-operator."""
    folder = module_folder(MODULES / "prometheus_operator", "github.com/prometheus-operator/prometheus-operator")
    return folder / "example" / "prometheus-operator-crd" / f"monitoring.coreos.com_{plural}.yaml"


def flux_kustomization_crd() -> Path:
    """The file of Flux's CRD for Kustomizations."""
    folder = module_folder(MODULES / "flux", "github.com/fluxcd/kustomize-controller")
    return folder / "config" / "crd" / "bases" / "kustomize.toolkit.fluxcd.io_kustomizations.yaml"
