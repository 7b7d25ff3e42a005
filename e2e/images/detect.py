"""Choice of the image builder: Docker if its daemon answers, otherwise buildah, installed if possible."""

import shutil
import subprocess

from e2e.images.buildah import Buildah
from e2e.images.builder import Builder
from e2e.images.docker import Docker
from e2e.images.errors import ImageError
from e2e.localkube import debian_packages

_DAEMON_ANSWER_SECONDS = 10
"""Timeout of `docker info`, which waits if the daemon does not run."""

_PACKAGES = ("buildah", "debootstrap", "runc")
"""buildah, its container runtime, and debootstrap for a base image without a registry."""


def found_builder() -> Builder:
    """The builder to use on this machine."""
    if _docker_answers():
        return Docker()
    if not shutil.which("buildah") and debian_packages.can_install():
        _install()
    if shutil.which("buildah"):
        return Buildah()
    raise ImageError(
        "nothing here can build images: no Docker daemon answers and there is no buildah; "
        f"start Docker, or `apt-get install {' '.join(_PACKAGES)}` and run as root"
    )


def _install() -> None:
    try:
        debian_packages.install(_PACKAGES)
    except debian_packages.PackageError as error:
        raise ImageError(str(error)) from error


def _docker_answers() -> bool:
    try:
        answer = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=_DAEMON_ANSWER_SECONDS)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0
