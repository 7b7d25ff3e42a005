"""The CustomResourceDefinitions of HTTPRoute and InferencePool, from the Go modules of their projects."""

from pathlib import Path

from e2e.go_modules import MODULES
from e2e.localkube.binaries import module_folder


def http_route_crd() -> Path:
    """The file of the CRD in Go's module cache; Go downloads the module if it is missing (6 MB)."""
    folder = module_folder(MODULES / "gateway_api", "sigs.k8s.io/gateway-api")
    return folder / "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"


def inference_pool_crd() -> Path:
    """The same of InferencePool (8 MB)."""
    folder = module_folder(MODULES / "inference_extension", "sigs.k8s.io/gateway-api-inference-extension")
    return folder / "config/crd/bases/inference.networking.k8s.io_inferencepools.yaml"
