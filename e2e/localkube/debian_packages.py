"""Packages of Debian that this machine lacks."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.localkube.progress import step
from e2e.localkube.state import exclusive

LOCK_SECONDS = 300
"""For another program's installation, such as that of automatic updates."""


class PackageError(Exception):
    """What apt-get said, in one readable message."""


def is_debian() -> bool:
    """Whether apt-get is how this machine is given commands."""
    return Path("/etc/debian_version").exists() and shutil.which("apt-get") is not None


def can_install() -> bool:
    """Whether this process may install packages."""
    return os.geteuid() == 0 and is_debian()


def install(packages: Sequence[str]) -> None:
    """Install packages, without what they merely recommend; the package lists are fetched first.

    Processes of this project wait for each other, and for another user of apt-get at most `LOCK_SECONDS`.
    """
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    patient = f"--option=DPkg::Lock::Timeout={LOCK_SECONDS}"
    with exclusive("apt-get"), step(f"Installing Debian packages: {' '.join(packages)}"):
        for arguments in (["update"], ["install", "--yes", "--no-install-recommends", patient, *packages]):
            answer = subprocess.run(
                ["apt-get", "--quiet", *arguments], env=environment, capture_output=True, text=True, check=False
            )
    if answer.returncode != 0:
        raise PackageError(f"apt-get install {' '.join(packages)}: {answer.stderr.strip()}")
