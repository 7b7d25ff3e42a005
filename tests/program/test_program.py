"""The archives of an installation on stock images: complete, small, and equal for equal sources."""

import ast
import io
import json
import lzma
import re
import subprocess
import sys
import tarfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from e2e.deploy.program import JOBS_FILE, PACKAGE, SOURCES, imported, imports, operator_program

CONFIG_MAP_BYTES = 2**20
"""Limit of the data of a ConfigMap (Kubernetes 1.36, pkg/apis/core/validation, `MaxSecretSize`)."""
JOB_MODULE_LIMIT = 100
PART = re.compile(r"[-_.]+")


def files(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        opened = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read() for name, file in opened.items() if file}


@pytest.fixture(scope="module")
def operator() -> bytes:
    return operator_program()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory, operator: bytes) -> Path:
    """The unpacked archive of the Jobs."""
    folder = tmp_path_factory.mktemp("jobs")
    archive = tmp_path_factory.mktemp("archive") / JOBS_FILE
    archive.write_bytes(files(operator)[JOBS_FILE])
    command = ["tar", "--extract", f"--file={archive}"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def test_equal_sources_give_equal_archives_that_fit_config_maps(operator: bytes) -> None:
    assert operator == operator_program()
    assert len(operator) < CONFIG_MAP_BYTES * 7 // 8, "the rest is for the next release"
    assert len(lzma.compress(files(operator)[JOBS_FILE], preset=9)) < CONFIG_MAP_BYTES // 4


def test_the_archive_of_the_operator_has_every_file_of_the_package(operator: bytes) -> None:
    paths = [path for path in (SOURCES / PACKAGE).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    found = files(operator)
    assert {path.relative_to(SOURCES).as_posix() for path in paths} < set(found)
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=\S)", found["requirements.txt"].decode()))


def test_the_archive_of_jobs_has_no_module_that_decides_or_connects(jobs: Path) -> None:
    modules = [path.relative_to(jobs).as_posix() for path in jobs.rglob("*.py")]
    assert len(modules) < JOB_MODULE_LIMIT
    packages = {module.split("/")[1] for module in modules if module.startswith(f"{PACKAGE}/")}
    assert packages.isdisjoint({"controller", "kube", "pipeline", "router", "engines", "status", "app.py"})


def test_commands_of_jobs_run_from_their_archive_alone(jobs: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "config.json").write_text(json.dumps({"model_type": "gemma3_text", "hidden_size": 64}))
    (whole / "model.safetensors").write_bytes(b"weights")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(jobs), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert run("--version").returncode == 0
    inspected = run("inspect", str(tmp_path))
    assert (inspected.returncode, "Traceback" in inspected.stderr) == (1, False)
    assert run("inspect", str(whole)).returncode == 0
    pruned = run("prune", f"--cache={tmp_path}")
    assert json.loads(pruned.stdout)["pruned"]["freed_bytes"] == 0
    refused = run("download", "pvc://models/a", f"--cache={tmp_path}")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)


def test_libraries_of_jobs_are_those_that_their_modules_import(jobs: Path) -> None:
    locked = set(re.findall(r"^([\w.-]+)==", (jobs / "requirements.txt").read_text(), re.MULTILINE))
    distributions = packages_distributions()
    for path in (jobs / PACKAGE).rglob("*.py"):
        tops = {name.split(".")[0] for name in imports(ast.parse(path.read_text()))}
        for top in tops - set(sys.stdlib_module_names) - {PACKAGE}:
            assert {PART.sub("-", name).lower() for name in distributions[top]} & locked, (path, top)


def test_an_import_for_types_only_is_no_import() -> None:
    assert f"{PACKAGE}.engines.registry" not in imported([f"{PACKAGE}.cli.job.main", f"{PACKAGE}.cli.job.inspect"])
    assert f"{PACKAGE}.engines.registry" in imported([f"{PACKAGE}.cli.live_resource"])
