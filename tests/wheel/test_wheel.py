"""The built wheel, installed in a separate virtual environment."""

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator" / "inference_operator"
IMPORT_EVERYTHING = """
import importlib, pkgutil, inference_operator
for module in pkgutil.walk_packages(inference_operator.__path__, "inference_operator."):
    importlib.import_module(module.name)
print(inference_operator.__file__)
"""


def run(*command: str | Path, cwd: Path) -> str:
    answer = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def uv() -> str:
    """The uv that runs these tests says where it is; else the one on PATH."""
    found = os.environ.get("UV") or shutil.which("uv")
    assert found, "uv builds the wheel: run the tests with `uv run pytest`"
    return found


@pytest.fixture(scope="module")
def wheel(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(uv, "build", "--quiet", "--wheel", "--out-dir", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(uv: str, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and the locked versions of what it needs."""
    folder = tmp_path_factory.mktemp("environment")
    run(uv, "venv", "--quiet", folder / "venv", cwd=folder)
    locked = run(uv, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", cwd=ROOT)
    (folder / "locked.txt").write_text(locked)
    python = folder / "venv" / "bin" / "python"
    requirements = folder / "locked.txt"
    run(uv, "pip", "install", "--quiet", "--python", python, "--requirement", requirements, wheel, cwd=folder)
    return folder / "venv" / "bin"


def test_the_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    files = {str(path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*") if path.is_file()}
    files = {path for path in files if "__pycache__" not in path}
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert files <= packed
    assert all(".dist-info/" in path for path in packed - files)


def test_every_module_imports_from_the_installed_wheel(environment: Path, tmp_path: Path) -> None:
    where = run(environment / "python", "-c", IMPORT_EVERYTHING, cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(environment.parent)


def test_the_installed_command_renders_a_sample(environment: Path, tmp_path: Path) -> None:
    sample = ROOT / "manifests" / "samples" / "quickstart.yaml"
    rendered = run(environment / "infd", "render", "-f", sample, "--gpu", "L4:4", cwd=tmp_path)
    assert rendered.count("kind: Deployment") == 2
    assert "haproxy.cfg: |" in rendered


def test_the_wheel_installs_both_commands(environment: Path, tmp_path: Path) -> None:
    assert "render" in run(environment / "infd", "--help", cwd=tmp_path)
    assert (environment / "inference-operator").exists()
