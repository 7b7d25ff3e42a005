"""What this machine must offer before anything is built or started: one line for each thing that is missing."""

import os
import shutil
from dataclasses import dataclass

from e2e.localkube import debian_packages
from e2e.localkube.binaries import Level
from e2e.localkube.cache import cache_root
from e2e.localkube.errors import ClusterError
from e2e.localkube.node import CNI_PLUGINS

GIB = 1 << 30
DISK_NEEDED = {Level.CONTROL_PLANE: 6 * GIB, Level.NODE: 25 * GIB}
"""Commands and Go's build cache take 5 GiB; images of engines, and what they are built from, another 20."""

PACKAGES = {
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
    "nft": "nftables",
    "runc": "runc",
}
"""Commands that run beside ours, and the Debian packages that hold them."""
_CNI_PACKAGE = "containernetworking-plugins"
_NEEDED_COMMANDS = {Level.CONTROL_PLANE: ("setpriv",), Level.NODE: tuple(PACKAGES)}


@dataclass(frozen=True, slots=True)
class Machine:
    """What was found on this machine."""

    is_root: bool
    is_debian: bool
    free_bytes: int
    missing_packages: tuple[str, ...]


def check(level: Level) -> None:
    """Install what can be installed; refuse, with one line for each thing that is missing."""
    machine = _machine(level)
    if machine.missing_packages and debian_packages.can_install():
        _install(machine.missing_packages)
        machine = _machine(level)
    problems = complaints(machine, level)
    if problems:
        raise ClusterError("\n".join(problems))


def complaints(machine: Machine, level: Level) -> list[str]:
    """What this machine lacks, each with its cure."""
    found = []
    if level is Level.NODE and not machine.is_root:
        found.append("level node needs root, for namespaces and mounts: run it with sudo, or use --level control-plane")
    if machine.free_bytes < DISK_NEEDED[level]:
        found.append(
            f"{cache_root()} has {machine.free_bytes / GIB:.0f} GiB free and level {level} needs "
            f"{DISK_NEEDED[level] / GIB:.0f}: free some, or set XDG_CACHE_HOME to a folder on a larger disk"
        )
    if machine.missing_packages:
        names = " ".join(machine.missing_packages)
        cure = f"run `sudo apt-get install {names}`" if machine.is_debian else "install what provides them"
        found.append(f"packages are missing: {names}: {cure}")
    return found


def _machine(level: Level) -> Machine:
    missing = {PACKAGES[command] for command in _NEEDED_COMMANDS[level] if not _is_installed(command)}
    if level is Level.NODE and not any((folder / "ptp").exists() for folder in CNI_PLUGINS):
        missing.add(_CNI_PACKAGE)
    folder = cache_root()
    while not folder.exists():
        folder = folder.parent
    return Machine(
        is_root=os.geteuid() == 0,
        is_debian=debian_packages.is_debian(),
        free_bytes=shutil.disk_usage(folder).free,
        missing_packages=tuple(sorted(missing)),
    )


def _is_installed(command: str) -> bool:
    """Users' PATH often lacks the system's folders, where the commands that we call are found anyway."""
    return shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None


def _install(missing: tuple[str, ...]) -> None:
    try:
        debian_packages.install(missing)
    except debian_packages.PackageError as error:
        raise ClusterError(str(error)) from error
