"""The CustomResourceDefinition of HTTPRoute, from the Go module of Gateway API."""

import json
import subprocess
from pathlib import Path

from e2e.cluster.toolchain import go_command, go_environment

MODULE = Path(__file__).parents[2] / "e2e" / "gateway_api"
"""Pins the module's version and checksum."""


def http_route_crd() -> Path:
    """The file of the CRD in Go's module cache; Go downloads the module if it is missing (6 MB)."""
    go = go_command(MODULE / "go.mod")
    command = [str(go), "mod", "download", "-json", "sigs.k8s.io/gateway-api"]
    answer = subprocess.run(command, cwd=MODULE, env=go_environment(go), capture_output=True, text=True, check=True)
    return Path(json.loads(answer.stdout)["Dir"]) / "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"
