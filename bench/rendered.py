"""The router's configuration as `infd render` prints it, of this tree or of another commit."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
CONFIG = "haproxy.cfg"
NAME = "tiny"
MAX_NUM_SEQS = 1024
"""So many that no request of a bench waits for a place at an engine."""
_RENDER = "import sys; from inference_operator.cli.main import main; sys.exit(main(sys.argv[1:]))"


def rendered(router: Mapping[str, object], commit: str = "") -> dict[str, str]:
    """The files of the router's ConfigMap; those of another commit, if one is named.

    Args:
        router: `spec.router`.
        commit: anything that git understands.
    """
    if not commit:
        return _files(ROOT / "operator", router)
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit, "operator"], cwd=ROOT, capture_output=True, check=False)
        if archive.returncode:
            sys.exit(f"error: {archive.stderr.decode().strip()}")
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        return _files(Path(folder) / "operator", router)


def resource(router: Mapping[str, object]) -> str:
    """An InferenceDeployment with this router."""
    spec = {
        "model": {"source": "oci://localhost/inference-operator/tiny-llama:1"},
        "hardware": {"device": "CPU"},
        "engine": {"maxNumSeqs": MAX_NUM_SEQS, "args": ["--kv-cache-memory-bytes=67108864"]},
        "router": dict(router),
    }
    kind = {"apiVersion": "inference-operator.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": {"name": NAME}}
    return yaml.safe_dump({**kind, "spec": spec})


def _files(operator: Path, router: Mapping[str, object]) -> dict[str, str]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(resource(router))
        file.flush()
        command = [sys.executable, "-c", _RENDER, "render", "-f", file.name]
        environment = {**os.environ, "PYTHONPATH": str(operator)}
        printed = subprocess.run(command, env=environment, cwd=operator, capture_output=True, text=True, check=False)
    if printed.returncode:
        sys.exit(f"error: infd render: {printed.stderr.strip()}")
    maps = (document for document in yaml.safe_load_all(printed.stdout) if document["kind"] == "ConfigMap")
    (files,) = [document["data"] for document in maps if CONFIG in document["data"]]
    return dict(files)
