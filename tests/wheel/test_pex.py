"""The one file with `infd` starts without the environment that built it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inference_operator import __version__

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_the_file_starts_alone(tmp_path: Path) -> None:
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv, "uv builds the file: run the tests with `uv run pytest`"
    subprocess.run(["/usr/bin/make", "pex", f"UV={uv}", f"OUT={tmp_path}"], cwd=ROOT, check=True)
    shutil.rmtree(tmp_path / "pex")
    python = Path(sys.executable).resolve()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PEX_ROOT": str(tmp_path / "root")}
    for arguments, words in ((["--version"], __version__), (["crd"], "kind: CustomResourceDefinition")):
        ended = subprocess.run(
            [python, tmp_path / "infd.pex", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        assert words in ended.stdout
