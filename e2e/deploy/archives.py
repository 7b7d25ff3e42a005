"""Archives of `infd` for machines without this repository, and the manifest by which krew installs one.

`python -m e2e.deploy.archives --out FOLDER` writes `infd-OS-ARCH.tar.gz`: a script, and the locked libraries for each
minor version of Python (their native parts have names of their own). The script takes the newest Python on the PATH.
"""

import argparse
import gzip
import hashlib
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from e2e.deploy.uv import ROOT, uv
from e2e.images.assembly import build_wheel
from e2e.images.errors import ImageError

PLATFORMS = {
    ("linux", "amd64"): "x86_64-manylinux_2_28",
    ("linux", "arm64"): "aarch64-manylinux_2_28",
    ("darwin", "arm64"): "aarch64-apple-darwin",
}
"""Operating system and architecture, as Go names them, with uv's name."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
COMMAND, PROGRAM = "kubectl-infd", "infd_main.py"
SCRIPT = f"""\
#!/bin/sh
# infd, with its libraries beside it. It needs a Python of these versions on the PATH.
# pyenv has names of others there, which do not run.
here=$(dirname "$(readlink -f "$0")")
for version in {" ".join(reversed(PYTHONS))}; do
  if "python$version" -c "" 2> /dev/null; then exec "python$version" "$here/lib/{PROGRAM}" "$@"; fi
done
case "$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null)" in
  {"|".join(PYTHONS)}) exec python3 "$here/lib/{PROGRAM}" "$@" ;;
esac
echo "infd needs Python {", ".join(PYTHONS[:-1])} or {PYTHONS[-1]} on the PATH." >&2
exit 1
"""


def write_archives(
    out: Path, pythons: Sequence[str] = PYTHONS, platforms: Sequence[tuple[str, str]] = ()
) -> list[Path]:
    """Write an archive for each platform; returns their paths."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_wheel(folder)
        (wheel,) = folder.glob("*.whl")
        locked = folder / "locked.txt"
        uv("export", "--frozen", "--no-dev", "--no-emit-project", f"--output-file={locked}")
        return [_archive(out, folder, wheel, one, pythons) for one in platforms or tuple(PLATFORMS)]


def _archive(out: Path, folder: Path, wheel: Path, platform: tuple[str, str], pythons: Sequence[str]) -> Path:
    whole = folder / "-".join(platform)
    for python in pythons:
        part = folder / f"{whole.name}-{python}"
        place = (f"--target={part}", f"--python-platform={PLATFORMS[platform]}", f"--python-version={python}")
        uv(
            "pip",
            "install",
            *place,
            "--only-binary=:all:",
            "--require-hashes",
            f"--requirement={folder / 'locked.txt'}",
        )
        uv("pip", "install", *place, "--no-deps", str(wheel))
        shutil.copytree(part, whole / "lib", dirs_exist_ok=True)
        shutil.rmtree(part)
    shutil.rmtree(whole / "lib" / "bin", ignore_errors=True)
    (whole / "lib" / PROGRAM).write_text("from inference_operator.cli.main import main\n\nmain()\n")
    (whole / COMMAND).write_text(SCRIPT)
    (whole / COMMAND).chmod(0o755)
    shutil.copyfile(ROOT / "LICENSE", whole / "LICENSE")
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"infd-{whole.name}.tar.gz"
    with (
        gzip.GzipFile(path, "wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        archive.add(whole, ".", filter=_reproducible)
    shutil.rmtree(whole)
    return path


def _reproducible(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def krew_manifest(url: str, version: str, archives: Sequence[Path]) -> str:
    """The manifest of the plugin, whose archives are at a URL (krew.googlecontainertools.github.com/v1alpha2)."""
    platforms = [
        {
            "selector": {"matchLabels": dict(zip(("os", "arch"), path.name.split(".")[0].split("-")[1:], strict=True))},
            "uri": f"{url.rstrip('/')}/{path.name}",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bin": COMMAND,
        }
        for path in archives
    ]
    spec = {
        "version": f"v{version}",
        "homepage": url.partition("/releases/")[0],
        "shortDescription": "Plan, run and explain language models on GPUs",
        "description": "The command line of inference-operator. `plan` and `fit` need no cluster.",
        "caveats": f"It needs Python {PYTHONS[0]} to {PYTHONS[-1]} on the PATH.",
        "platforms": platforms,
    }
    head = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "infd"},
    }
    return str(yaml.safe_dump({**head, "spec": spec}, sort_keys=False))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "dist")
    options.add_argument("--platform", action="append", default=[], metavar="OS-ARCH", help="repeatable; default: all")
    given = options.parse_args()
    try:
        for archive in write_archives(given.out, platforms=[tuple(one.split("-")) for one in given.platform]):
            print(archive)
    except (ImageError, KeyError) as error:
        sys.exit(f"error: {error}")
