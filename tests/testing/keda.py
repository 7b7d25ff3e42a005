"""The CustomResourceDefinition of KEDA's ScaledObject, from KEDA's Go module."""

import json
import subprocess
from pathlib import Path

from e2e.cluster.toolchain import go_command, go_environment

MODULE = Path(__file__).parents[2] / "e2e" / "keda"
"""Pins the module's version and checksum."""


def scaled_object_crd() -> Path:
    """The file of the CRD in Go's module cache; Go downloads the module if it is missing (3 MB)."""
    go = go_command(MODULE / "go.mod")
    command = [str(go), "mod", "download", "-json", "github.com/kedacore/keda/v2"]
    answer = subprocess.run(command, cwd=MODULE, env=go_environment(go), capture_output=True, text=True, check=True)
    return Path(json.loads(answer.stdout)["Dir"]) / "config/crd/bases/keda.sh_scaledobjects.yaml"
