"""An archive with `infd` runs on a machine that has nothing but Python, and krew's manifest names it."""

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from e2e.deploy.archives import COMMAND, PLATFORMS, PYTHONS, SCRIPT, krew_manifest, write_archives
from inference_operator import __version__


@pytest.mark.full
def test_the_command_of_an_archive_runs_with_python_alone(tmp_path: Path) -> None:
    version = "{}.{}".format(*sys.version_info)
    (path,) = write_archives(tmp_path, (version,), [("linux", "amd64")])
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "unpacked")  # noqa: S202 - written here
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "infd").symlink_to(tmp_path / "unpacked" / COMMAND)
    (commands / f"python{version}").symlink_to(Path(sys.executable).resolve())
    environment = {"PATH": f"{commands}:/usr/bin:/bin", "HOME": str(tmp_path)}
    for arguments, words in ((["--version"], __version__), (["crd"], "kind: CustomResourceDefinition")):
        ended = subprocess.run(
            [commands / "infd", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        assert words in ended.stdout


def test_without_a_known_python_the_command_says_which(tmp_path: Path) -> None:
    script = tmp_path / COMMAND
    script.write_text(SCRIPT)
    (tmp_path / "python3").write_text("#!/bin/sh\necho 3.9\n")
    (tmp_path / "python3").chmod(0o755)
    for command in ("readlink", "dirname"):
        (tmp_path / command).symlink_to(f"/usr/bin/{command}")
    ended = subprocess.run(
        ["/bin/sh", script], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == "infd needs Python 3.11, 3.12, 3.13 or 3.14 on the PATH.\n"


def test_krew_gets_each_archive_with_its_hash(tmp_path: Path) -> None:
    paths = [tmp_path / f"infd-{'-'.join(one)}.tar.gz" for one in PLATFORMS]
    for path in paths:
        path.write_bytes(path.name.encode())
    url = "https://forge.example/a/b/releases/download/v1.2.3"
    made = yaml.safe_load(krew_manifest(url, "1.2.3", paths))
    assert (made["metadata"]["name"], made["spec"]["version"]) == ("infd", "v1.2.3")
    assert made["spec"]["homepage"] == "https://forge.example/a/b"
    assert [tuple(one["selector"]["matchLabels"].values()) for one in made["spec"]["platforms"]] == list(PLATFORMS)
    for one, path in zip(made["spec"]["platforms"], paths, strict=True):
        assert one["uri"] == f"{url}/{path.name}"
        assert (one["sha256"], one["bin"]) == (hashlib.sha256(path.read_bytes()).hexdigest(), COMMAND)
    assert all(version in made["spec"]["caveats"] for version in (PYTHONS[0], PYTHONS[-1]))
