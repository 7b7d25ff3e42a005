"""CustomResourceDefinitions of other projects, from their Go modules."""

from pathlib import Path

from e2e.go_modules import MODULES
from e2e.localkube.binaries import module_folder


def prometheus_operator_crd(plural: str) -> Path:
    """The file of a CRD of prometheus-operator."""
    folder = module_folder(MODULES / "prometheus_operator", "github.com/prometheus-operator/prometheus-operator")
    return folder / "example" / "prometheus-operator-crd" / f"monitoring.coreos.com_{plural}.yaml"


def flux_helm_release_crd() -> Path:
    """The file of Flux's CRD for HelmReleases."""
    folder = module_folder(MODULES / "flux", "github.com/fluxcd/helm-controller")
    return folder / "config" / "crd" / "bases" / "helm.toolkit.fluxcd.io_helmreleases.yaml"


def argo_cd_application_crd() -> Path:
    """The file of Argo CD's CRD for Applications."""
    folder = module_folder(MODULES / "argo_cd", "github.com/argoproj/argo-cd/v3")
    return folder / "manifests" / "crds" / "application-crd.yaml"


def flux_kustomization_crd() -> Path:
    """The file of Flux's CRD for Kustomizations."""
    folder = module_folder(MODULES / "flux", "github.com/fluxcd/kustomize-controller")
    return folder / "config" / "crd" / "bases" / "kustomize.toolkit.fluxcd.io_kustomizations.yaml"
