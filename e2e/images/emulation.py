"""Programs of other architectures in builds: QEMU, which the kernel starts for them (binfmt_misc)."""

import platform
import subprocess
from pathlib import Path

from e2e import packages
from e2e.images.errors import ImageError

ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Architectures that images are built for, by their names in images and in the kernel (`uname -m`)."""
_REGISTERED = Path("/proc/sys/fs/binfmt_misc")
_PACKAGE = "qemu-user-static"
_RULE = "/usr/lib/binfmt.d/qemu-{machine}.conf"
"""What the package gives the kernel to register: how such programs begin, and the emulator (binfmt.d(5))."""


def is_native(architecture: str) -> bool:
    """Whether this machine runs programs of an architecture itself."""
    return ARCHITECTURES[architecture] == platform.machine()


def enable(architecture: str) -> None:
    """Let this machine run programs of an architecture, in containers too; installs QEMU if it is missing.

    The registration holds for the whole machine until it is started again.
    """
    machine = ARCHITECTURES[architecture]
    if is_native(architecture) or (_REGISTERED / f"qemu-{machine}").exists():
        return
    rule = Path(_RULE.format(machine=machine))
    if not rule.exists() and packages.can_install():
        packages.install([_PACKAGE])
    if not rule.exists():
        raise ImageError(f"building for {architecture} needs QEMU: `apt-get install {_PACKAGE}` and run as root")
    if not (_REGISTERED / "register").exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(_REGISTERED)], check=True)
    if not (_REGISTERED / f"qemu-{machine}").exists():
        (_REGISTERED / "register").write_text(rule.read_text().strip())
