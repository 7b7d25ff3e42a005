"""The CustomResourceDefinitions of prometheus-operator, from its Go module."""

import json
import subprocess
from pathlib import Path

from e2e.cluster.toolchain import go_command, go_environment

MODULE = Path(__file__).parents[2] / "e2e" / "prometheus_operator"
"""Pins the module's version and checksum."""
NAME = "github.com/prometheus-operator/prometheus-operator"


def prometheus_operator_crd(plural: str) -> Path:
    """The file of a CRD in Go's module cache; Go downloads the module if it is missing (4 MB)."""
    go = go_command(MODULE / "go.mod")
    command = [str(go), "mod", "download", "-json", NAME]
    answer = subprocess.run(command, cwd=MODULE, env=go_environment(go), capture_output=True, text=True, check=True)
    return (
        Path(json.loads(answer.stdout)["Dir"]) / f"example/prometheus-operator-crd/monitoring.coreos.com_{plural}.yaml"
    )
