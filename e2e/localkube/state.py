"""Where a cluster's files lie, what is recorded about it, and how clusters stay out of each other's way."""

import fcntl
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TextIO

from e2e.localkube.binaries import Level
from e2e.localkube.cache import cache_root
from e2e.localkube.errors import ClusterError
from e2e.localkube.network import IpFamily, Subnets

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")
_SOCKET_PATH_LIMIT = 107
"""The longest path of a Unix socket on Linux (unix(7): 108 bytes with the final zero)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one cluster, all below one folder."""

    directory: Path

    @property
    def record(self) -> Path:
        """What is recorded about it."""
        return self.directory / "cluster.json"

    @property
    def failure(self) -> Path:
        """Why the cluster stopped by itself; absent while it runs."""
        return self.directory / "failure"

    @property
    def certificates(self) -> Path:
        """The certificate authority and what it signed."""
        return self.directory / "certificates"

    @property
    def configuration(self) -> Path:
        """The components' configuration files."""
        return self.directory / "configuration"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's; the components' own lie in `configuration`."""
        return self.directory / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """One JSON object a request."""
        return self.directory / "audit.log"

    @property
    def volumes(self) -> Path:
        """A folder that exists under the same path inside the node: where `local` volumes may lie."""
        return self.directory / "volumes"

    @property
    def registries(self) -> Path:
        """How the node reaches registries, a folder for each (containerd's `hosts.toml`)."""
        return self.directory / "registries"

    @property
    def images(self) -> Path:
        """The node's image store: the one thing that outlives `down`, since filling it takes minutes."""
        return self.directory / "images"

    @property
    def containerd_socket(self) -> Path:
        """Where the container runtime listens."""
        return self.directory / "containerd.sock"

    @property
    def kubelet(self) -> Path:
        """The kubelet's root folder."""
        return self.directory / "kubelet"

    def log(self, component: str) -> Path:
        """What a component printed."""
        return self.directory / "log" / f"{component}.log"


@dataclass(frozen=True, slots=True)
class Record:
    """What must be known about a cluster to find it again, written before its first process starts."""

    name: str
    provider: str
    server: str = ""
    level: Level = Level.CONTROL_PLANE
    binaries: str = ""
    gpu_nodes: int = 0
    slot: int = 0
    owned: bool = False
    context: str = ""
    ip_family: IpFamily = IpFamily.IPV4

    @property
    def subnets(self) -> tuple[Subnets, ...]:
        """The address ranges of a cluster with a node: one for each family, the primary one first."""
        return subnets_of(self.slot, self.ip_family)


def subnets_of(slot: int, family: IpFamily) -> tuple[Subnets, ...]:
    """The address ranges of a slot: one for each family, the primary one first."""
    return tuple(Subnets(slot, one) for one in family.single)


def clusters_directory() -> Path:
    """The folder of all clusters of this user."""
    return cache_root() / "clusters"


def layout(name: str) -> Layout:
    """Where the cluster of this name has its files; refuses names that cannot be a host name or a path."""
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"{name!r} cannot be a cluster's name: at most 32 lower-case letters, digits and dashes, such as demo"
        )
    found = Layout(clusters_directory() / name)
    if len(str(found.containerd_socket)) > _SOCKET_PATH_LIMIT:
        raise ClusterError(
            f"{found.containerd_socket} is longer than the {_SOCKET_PATH_LIMIT} bytes of a socket's path: "
            "set XDG_CACHE_HOME to a shorter folder"
        )
    return found


def read_record(name: str) -> Record | None:
    """What is recorded about a cluster, or None if there is none of this name."""
    try:
        content = json.loads(layout(name).record.read_text())
    except FileNotFoundError:
        return None
    # Another version of this tool may have recorded it, from another checkout: with other fields, or fewer.
    known = {field.name: content[field.name] for field in fields(Record) if field.name in content}
    try:
        level = Level(known.get("level", Level.CONTROL_PLANE))
        family = IpFamily(known.get("ip_family", IpFamily.IPV4))
    except ValueError as error:
        raise ClusterError(
            f"the record of cluster {name} is of another version of this tool ({error}): delete the cluster with that"
            f" version, or stop its processes and remove {layout(name).directory}"
        ) from None
    return Record(**{**known, "level": level, "ip_family": family})


def write_record(record: Record) -> None:
    """Record a cluster; a reader sees the old record or the new one, never half of it."""
    path = layout(record.name).record
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    content = asdict(record)
    if record.ip_family is IpFamily.IPV4:
        del content["ip_family"]  # versions without this field refuse it, and know only IPv4
    partial.write_text(json.dumps(content, indent=2))
    partial.rename(path)


def records() -> list[Record]:
    """Every recorded cluster of this user, by name."""
    names = sorted(path.parent.name for path in clusters_directory().glob("*/cluster.json"))
    return [record for name in names if (record := read_record(name)) is not None]


@contextmanager
def exclusive(lock: str) -> Iterator[None]:
    """Hold one of this user's locks; the kernel releases it with the process, however that ends."""
    with _lock_file(lock) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def exclusive_if_free(lock: str) -> Iterator[bool]:
    """Hold a lock if nobody else does; says whether it is held."""
    with _lock_file(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _lock_file(lock: str) -> TextIO:
    path = clusters_directory() / ".locks" / lock
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("w")
