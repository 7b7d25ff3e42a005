"""`make install`: what it needs of the machine, and what it says if something is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.deploy.install import NAMESPACE, install
from e2e.localkube.errors import ClusterError
from tests.chart.documented import INSTALL_PAGE, shell_commands

ROOT = Path(__file__).parents[2]
LOADED = "import sys; import e2e.deploy.install; print(*{name.partition('.')[0] for name in sys.modules})"


def test_three_commands_of_the_readme_lead_to_a_running_operator() -> None:
    commands = shell_commands("README.md")
    at = commands.index(["make", "install"])
    assert commands[at + 1][:2] == ["kubectl", "apply"], "the clone and `make install` are before it"
    assert ["make", "install"] in shell_commands(INSTALL_PAGE)


def test_it_needs_nothing_but_pythons_standard_library() -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}"}
    command = [sys.executable, "-S", "-c", LOADED]
    loaded = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    others = set(loaded.split()) - set(sys.stdlib_module_names) - {"__main__", "e2e", "inference_operator"}
    assert not {name for name in others if not name.startswith("_")}


def test_a_missing_command_is_named_with_a_cure_before_anything_is_written(tmp_path: Path) -> None:
    for missing in ("kubectl", "helm"):
        with pytest.raises(
            ClusterError, match=rf"{missing} is missing on this machine: install it, and put it .* PATH"
        ):
            install(NAMESPACE, [], {"PATH": str(tmp_path)})
        written(tmp_path / missing, "exit 1")


def test_the_complaint_of_a_command_is_the_error(tmp_path: Path) -> None:
    written(tmp_path / "kubectl", 'echo "error: current-context is not set" >&2\nexit 1')
    written(tmp_path / "helm", "exit 1")
    with pytest.raises(ClusterError, match="`kubectl config …` failed: error: current-context is not set; choose a"):
        install(NAMESPACE, [], {"PATH": f"{tmp_path}:/bin:/usr/bin"})


def written(script: Path, text: str) -> None:
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
