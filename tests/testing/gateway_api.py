"""The CustomResourceDefinition of HTTPRoute, from the Go module of Gateway API."""

from pathlib import Path

from e2e.go_modules import MODULES
from e2e.localkube.binaries import module_folder


def http_route_crd() -> Path:
    """The file of the CRD in Go's module cache; Go downloads the module if it is missing (6 MB)."""
    folder = module_folder(MODULES / "gateway_api", "sigs.k8s.io/gateway-api")
    return folder / "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"
