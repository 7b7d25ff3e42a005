"""The operator's and the router's image for amd64 and arm64, assembled in a registry.

Nothing is built, and nothing of the images runs here: no Docker, no root and no emulator is needed.

- Base layers are those of the official images of Python and HAProxy, copied from registry to registry by `crane`. Their
  tags are what the registry has at this time. The digest is asked for once, and the image says which it was.
- The operator's own layer has the wheels that uv.lock names for that architecture, and this repository's own wheel.
  `uv` unpacks them. There is no bytecode, so Python compiles the modules in memory at each start.
- The router's image is HAProxy's with the numeric user that its pods have.
"""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import yaml

from e2e.deploy.uv import uv
from e2e.go_modules import ensure_crane
from e2e.images.errors import ImageError
from e2e.images.progress import timed
from e2e.localkube.oci import DEFAULT_PATH, layer_of

ROOT = Path(__file__).parents[2]
ARCHITECTURES = {"amd64": "x86_64-unknown-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}
"""Architectures of the images, with the platforms that uv chooses wheels for."""
DOCKER_HUB = "docker.io"
_STOCK = yaml.safe_load((ROOT / "charts" / "inference-operator" / "values.yaml").read_text())["stock"]
BASES = {
    name: _STOCK[image].removeprefix(f"{DOCKER_HUB}/")
    for name, image in (("operator", "python"), ("router", "haproxy"))
}
"""Official images, Debian variants, below `DOCKER_HUB` or a mirror of it, for both architectures: those that the chart
has for `images: Stock`."""
PYTHON_VERSION = BASES["operator"].partition(":")[2].partition("-")[0]
PREFIX = "/opt/inference-operator"
PYTHON = "/usr/local/bin/python3"
"""Python in its official image (docker-library/python, `3.13/slim-trixie/Dockerfile`)."""
OPERATOR_USER, ROUTER_USER = "65532:65532", "99:99"
_SCRIPT = """\
#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""
_PUSHED = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Assembled:
    """An image in the registry: one name for all architectures."""

    target: str
    """With its tag."""
    digest: str
    """Of the index."""
    parts: Mapping[str, str]
    """Digest of the image for each architecture."""
    base: str
    """The base image, with its tag and the digest that the tag had (`NAME:TAG@DIGEST`)."""

    def pinned(self, digest: str) -> str:
        """The name with a digest instead of the tag."""
        return pinned(self.target, digest)


def pinned(name: str, digest: str) -> str:
    """The name of an image with a digest instead of its tag."""
    return f"{name.rpartition(':')[0]}@{digest}"


def assemble(name: str, target: str, mirror: str = DOCKER_HUB) -> Assembled:
    """Assemble an image and push it, under the name `target` with a tag.

    Args:
        name: `operator` or `router`.
        target: the image's name in the registry.
        mirror: the registry that has the base images.
    """
    base = _resolved(f"{mirror}/{BASES[name]}")
    with timed(name, f"assembling {target}"):
        assembled = {architecture: _part(name, base, target, architecture) for architecture in ARCHITECTURES}
        manifests = [f"--manifest={pinned(target, digest)}" for digest in assembled.values()]
        digest = _digest(crane("index", "append", *manifests, f"--tag={target}"))
        return Assembled(target, digest, assembled, base)


def _resolved(base: str) -> str:
    """The base image with the digest that its tag has now."""
    try:
        return f"{base}@{_digest(crane('digest', base))}"
    except ImageError as error:
        cure = "name a registry that has the official image, such as a mirror: BASES=registry.example/hub"
        raise ImageError(f"there is no base image {base}: {cure}. {error}") from error


def _part(name: str, base: str, target: str, architecture: str) -> str:
    """Push the image for one architecture, under a tag of its own; returns its digest."""
    tagged, _, found = base.partition("@")
    of_all, tag = pinned(tagged, found), f"--tag={target}-{architecture}"
    own = pinned(tagged, _digest(crane("digest", f"--platform=linux/{architecture}", of_all)))
    # OCI image specification 1.1, annotations.md
    told = [
        f"--annotation=org.opencontainers.image.base.{key}={value}"
        for key, value in (("name", tagged), ("digest", found))
    ]
    if name == "router":
        return _digest(crane("mutate", own, *told, f"--user={ROUTER_USER}", tag))
    with operator_layer(architecture) as layer:
        into = f"--new_tag={target}-{architecture}"
        pushed = crane("append", f"--base={own}", f"--new_layer={layer}", into)
    image = pinned(target, _digest(pushed))
    path = f"{PREFIX}/bin:{DEFAULT_PATH.partition('=')[2]}"
    variables = (f"--env=PATH={path}", f"--env=PYTHONPATH={PREFIX}/lib", "--env=PYTHONUNBUFFERED=1")
    start = ("--entrypoint=inference-operator", "--cmd=", f"--user={OPERATOR_USER}")
    return _digest(crane("mutate", image, *told, *start, *variables, tag))


@contextmanager
def operator_layer(architecture: str) -> Iterator[Path]:
    """The tar of the operator's own layer for an architecture: its libraries, and a script for each command."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library, scripts = folder / "root" / PREFIX[1:] / "lib", folder / "root" / PREFIX[1:] / "bin"
        _install(folder, library, ARCHITECTURES[architecture])
        shutil.rmtree(library / "bin", ignore_errors=True)  # scripts for the Python of this machine
        scripts.mkdir()
        for command, (module, function) in _commands(library).items():
            (scripts / command).write_text(_SCRIPT.format(python=PYTHON, module=module, function=function))
            (scripts / command).chmod(0o755)
        tar = folder / "layer.tar"
        with layer_of(folder / "root") as (content, _), tar.open("wb") as out:
            shutil.copyfileobj(content, out)
        yield tar


def _install(folder: Path, library: Path, platform: str) -> None:
    """Unpack the locked wheels for a platform, with their hashes checked, and this repository's own."""
    locked, own = folder / "locked.txt", folder / "wheel"
    locked.write_text(uv("export", "--frozen", "--no-dev", "--no-emit-project"))
    build_wheel(own)
    options = (f"--target={library}", f"--python-platform={platform}", f"--python-version={PYTHON_VERSION}")
    into = ("pip", "install", "--no-deps", "--only-binary=:all:", *options)
    uv(*into, "--require-hashes", f"--requirement={locked}")
    uv(*into, *map(str, own.glob("*.whl")))


def build_wheel(folder: Path) -> None:
    """Build the wheel of this repository, with `inference-operator` and `infd`, into a folder."""
    uv("build", "--wheel", f"--out-dir={folder}")
    (folder / ".gitignore").unlink(missing_ok=True)  # uv's


def _commands(library: Path) -> dict[str, tuple[str, str]]:
    """The module and the function of each command of this project (entry points of its distribution)."""
    (entries,) = library.glob("inference_operator-*.dist-info/entry_points.txt")
    found = re.findall(r"^([\w-]+) = ([\w.]+):(\w+)$", entries.read_text(), re.MULTILINE)
    return {command: (module, function) for command, module, function in found}


def environment(image: str) -> dict[str, str]:
    """The variables of an image in a registry, by its name with a digest."""
    found: dict[str, list[str]] = json.loads(crane("config", image))["config"]
    return dict(one.partition("=")[::2] for one in found.get("Env", []))


def extracted(image: str, into: Path, names: Sequence[re.Pattern[str]]) -> None:
    """Write the files of an image in a registry whose names match below a folder.

    Args:
        image: its name, with a digest.
        into: the folder.
        names: patterns of paths without the first slash.
    """
    command = [str(ensure_crane()), "export", image, "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        _extract(process.stdout, into, names)
        errors = process.communicate()[1].decode().strip()
    if process.returncode:
        raise ImageError(f"{image} could not be read: {errors}")


def _extract(stream: IO[bytes] | None, into: Path, names: Sequence[re.Pattern[str]]) -> None:
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            is_wanted = member.isfile() and any(name.fullmatch(member.name) for name in names)
            content = tar.extractfile(member) if is_wanted else None
            if content and ".." not in member.name:  # filters of tarfile came with Python 3.11.4
                path = into / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())


def crane(*arguments: str) -> str:
    """What a command of crane prints. It signs in as `docker login` has left it, or else `helm registry login`."""
    answer = subprocess.run(
        [ensure_crane(), *arguments], env=_signed_in(), cwd=ROOT, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        refused = "unauthorized" in answer.stderr.lower()
        cure = ". Log in: `helm registry login HOST`, or `docker login HOST`" if refused else ""
        raise ImageError(f"`crane {arguments[0]} …` failed: {answer.stderr.strip()}{cure}")
    return answer.stdout


def _signed_in() -> dict[str, str]:
    """The environment of crane; Helm keeps passwords in the form that Docker and Podman do."""
    configuration = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    helm = os.environ.get("HELM_REGISTRY_CONFIG") or str(configuration / "helm" / "registry" / "config.json")
    return {"REGISTRY_AUTH_FILE": helm, **os.environ}


def _digest(printed: str) -> str:
    found = _PUSHED.findall(printed)
    if not found:
        raise ImageError(f"crane names no digest: {printed}")
    last: str = found[-1]
    return last
