"""An archive with `infd` runs on a machine that has nothing but Python, and krew's manifest names it."""

import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
import yaml

from e2e.deploy.archives import COMMAND, PLATFORMS, PYTHONS, SCRIPT, krew_manifest, write_archives
from e2e.go_modules import ensure_krew
from e2e.localkube.binaries import ensure_command
from inference_operator import __version__

VERSION = "{}.{}".format(*sys.version_info)
"""Of Python, for archives with the libraries of one."""
URL = "https://forge.example/a/b/releases/download/v1.2.3"


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An archive of each platform, by its operating system and architecture."""
    paths = write_archives(tmp_path_factory.mktemp("archives"), (VERSION,))
    return dict(zip(("-".join(one) for one in PLATFORMS), paths, strict=True))


@pytest.mark.full
def test_the_command_of_an_archive_runs_with_python_alone(archives: dict[str, Path], tmp_path: Path) -> None:
    unpack(archives["linux-amd64"], tmp_path / "unpacked")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "infd").symlink_to(tmp_path / "unpacked" / COMMAND)
    (commands / f"python{VERSION}").symlink_to(Path(sys.executable).resolve())
    environment = {"PATH": f"{commands}:/usr/bin:/bin"}
    for arguments, words in ((["--version"], __version__), (["crd"], "kind: CustomResourceDefinition")):
        ended = subprocess.run(
            [commands / "infd", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        assert words in ended.stdout


@pytest.mark.full
def test_native_libraries_of_an_archive_are_of_its_platform(archives: dict[str, Path], tmp_path: Path) -> None:
    for platform, archive in archives.items():
        unpack(archive, tmp_path / platform)
        libraries = [path for path in (tmp_path / platform).rglob("*") if path.suffix in {".so", ".dylib"}]
        assert len(libraries) > 10, "pydantic, aiohttp and others"
        assert [path for path in libraries if not NATIVE[platform](path.read_bytes())] == []


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(folder)  # noqa: S202 - written here


def is_elf(content: bytes, machine: int) -> bool:
    """Whether it is a library for Linux on a machine (elf.h, `e_machine`)."""
    return content[:4] == b"\x7fELF" and int.from_bytes(content[18:20], "little") == machine


def is_mach_o(content: bytes) -> bool:
    """Whether macOS loads it on arm64: for this machine alone, or one part of several (mach-o/loader.h and fat.h)."""
    arm64 = 0x0100000C
    if content[:4] == b"\xcf\xfa\xed\xfe":
        return int.from_bytes(content[4:8], "little") == arm64
    parts = int.from_bytes(content[4:8]) if content[:4] == b"\xca\xfe\xba\xbe" else 0
    return arm64 in [int.from_bytes(content[8 + 20 * part : 12 + 20 * part]) for part in range(parts)]


NATIVE: Mapping[str, Callable[[bytes], bool]] = {
    "linux-amd64": partial(is_elf, machine=62),
    "linux-arm64": partial(is_elf, machine=183),
    "darwin-arm64": is_mach_o,
}


@pytest.mark.full
def test_krew_accepts_the_manifest_and_installs_the_archive(archives: dict[str, Path], tmp_path: Path) -> None:
    krew, validate = ensure_krew()
    manifest = tmp_path / "infd.yaml"
    manifest.write_text(krew_manifest(URL, "1.2.3", list(archives.values())))
    environment = {**os.environ, "KREW_ROOT": str(tmp_path / "krew"), "HOME": str(tmp_path)}
    install = (krew, "install", f"--manifest={manifest}", f"--archive={archives['linux-amd64']}")
    for command in ((validate, f"-manifest={manifest}", "-skip-install"), install):
        subprocess.run(command, env=environment, check=True)
    environment["PATH"] = f"{tmp_path / 'krew' / 'bin'}:{environment['PATH']}"
    command = (ensure_command("kubectl"), "infd", "--version")
    assert __version__ in subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def ran_with(folder: Path, **pythons: str) -> subprocess.CompletedProcess[str]:
    """Run the script of an archive where these scripts are the only ones named python…."""
    script = folder / COMMAND
    script.write_text(SCRIPT)
    for name, text in pythons.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    for command in ("readlink", "dirname"):
        (folder / command).symlink_to(f"/usr/bin/{command}")
    environment = {"PATH": str(folder)}
    return subprocess.run(["/bin/sh", script], env=environment, capture_output=True, text=True, check=False)


def test_without_a_known_python_the_command_says_which(tmp_path: Path) -> None:
    ended = ran_with(tmp_path, python3="echo 3.9")
    assert ended.returncode == 1
    assert ended.stderr == "infd needs Python 3.11, 3.12, 3.13 or 3.14 on the PATH.\n"


def test_a_name_of_a_python_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    """pyenv has a name for each version that it knows on the PATH, and runs only the chosen one."""
    ended = ran_with(tmp_path, **{f"python{PYTHONS[-1]}": "exit 127", f"python{PYTHONS[0]}": "echo runs"})
    assert (ended.returncode, ended.stdout.split()[-1]) == (0, "runs")


def test_krew_gets_each_archive_with_its_hash(tmp_path: Path) -> None:
    paths = [tmp_path / f"infd-{'-'.join(one)}.tar.gz" for one in PLATFORMS]
    for path in paths:
        path.write_bytes(path.name.encode())
    made = yaml.safe_load(krew_manifest(URL, "1.2.3", paths))
    assert (made["metadata"]["name"], made["spec"]["version"]) == ("infd", "v1.2.3")
    assert made["spec"]["homepage"] == "https://forge.example/a/b"
    assert [tuple(one["selector"]["matchLabels"].values()) for one in made["spec"]["platforms"]] == list(PLATFORMS)
    for one, path in zip(made["spec"]["platforms"], paths, strict=True):
        assert one["uri"] == f"{URL}/{path.name}"
        assert (one["sha256"], one["bin"]) == (hashlib.sha256(path.read_bytes()).hexdigest(), COMMAND)
    assert all(version in made["spec"]["caveats"] for version in (PYTHONS[0], PYTHONS[-1]))
