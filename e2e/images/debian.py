"""The base image made from Debian packages, for machines that reach no registry."""

import os
import shutil
from pathlib import Path

from e2e.images.errors import ImageError
from e2e.images.process import run_logged

MIRROR = "http://deb.debian.org/debian"
"""Debian's content delivery network; packages are signed, so no TLS is needed."""
_LEFT_OVER = ("var/cache/apt", "var/lib/apt/lists", "var/log", "etc/resolv.conf", "etc/hostname")
"""Downloads, logs, and files that debootstrap copied from this host."""


def install(suite: str, root: Path) -> None:
    """Install the minimal Debian of a release into `root`."""
    if os.geteuid() != 0:
        raise ImageError("no registry answers, and making a base image from Debian packages needs root: use sudo")
    if not shutil.which("debootstrap"):
        raise ImageError("no registry answers and there is no debootstrap: `apt-get install debootstrap`")
    # In its own mount namespace, so that its mounts end with it, also if it is killed.
    run_logged("base", ["unshare", "--mount", "debootstrap", "--variant=minbase", suite, str(root), MIRROR])
    for name in _LEFT_OVER:
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
            path.mkdir()
        else:
            path.unlink(missing_ok=True)


def suite(reference: str) -> str:
    """Debian's release in a tag of its official image.

    >>> suite("docker.io/library/debian:trixie-slim")
    'trixie'
    """
    return reference.rpartition(":")[2].removesuffix("-slim")
