"""Where clusters come from: one small protocol, and the choice of who fulfils it."""

from dataclasses import dataclass
from typing import BinaryIO, Protocol

from e2e.localkube import existing, kind, local
from e2e.localkube.binaries import Level
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import Cluster
from e2e.localkube.state import Record


class Provider(Protocol):
    """What can be done with one cluster, by whoever provides it."""

    def up(self) -> Cluster:
        """Return the cluster, created or found; an error if it exists with other properties."""

    def down(self, *, purge: bool) -> None:
        """Leave nothing of it behind; with `purge`, not even what makes the next `up` fast."""

    def handle(self) -> Cluster:
        """Return the recorded cluster without touching it."""

    def is_running(self) -> bool:
        """Whether it is there, as far as this machine can tell without asking it."""

    def load_image(self, archive: BinaryIO) -> list[str]:
        """Make the images of a streamed archive (OCI or Docker) available to pods; returns their names."""


@dataclass(frozen=True, slots=True)
class Local:
    """A cluster of this machine, without Docker."""

    record: Record
    gpu_nodes: int | None = None

    def up(self) -> Cluster:
        """Start it, or find it."""
        record = self.record
        return local.up(record.name, record.level, gpu_nodes=self.gpu_nodes, ip_family=record.ip_family)

    def down(self, *, purge: bool) -> None:
        """End it."""
        local.down(self.record.name, purge=purge)

    def handle(self) -> Cluster:
        """Return what is recorded."""
        return local.handle(self.record)

    def is_running(self) -> bool:
        """Whether its processes live."""
        return local.is_running(self.record.name)

    def load_image(self, archive: BinaryIO) -> list[str]:
        """Stream it into the node."""
        if self.record.level is not Level.NODE:
            raise ClusterError(f"cluster {self.record.name} has no node that runs images: use `up --level node`")
        return local.handle(self.record).load_image(archive)


@dataclass(frozen=True, slots=True)
class Existing:
    """Somebody else's cluster."""

    record: Record

    def up(self) -> Cluster:
        """Bind the name to the context."""
        return existing.up(self.record.name, self.record.context)

    def down(self, *, purge: bool) -> None:  # noqa: ARG002 (there is nothing to purge)
        """Forget the context."""
        existing.down(self.record.name)

    def handle(self) -> Cluster:
        """Return what is recorded."""
        return existing.handle(self.record)

    def is_running(self) -> bool:
        """It is there until its owner says otherwise."""
        return True

    def load_image(self, archive: BinaryIO) -> list[str]:  # noqa: ARG002 (refused)
        """Refuse: its nodes are reached through a registry only."""
        raise ClusterError(
            f"{self.record.name} is somebody else's cluster ({self.record.context}): "
            "push the image to a registry that its nodes can reach"
        )


@dataclass(frozen=True, slots=True)
class Kind:
    """A container of this machine's Docker or Podman."""

    record: Record
    node_image: str = ""

    def up(self) -> Cluster:
        """Create it, or find it."""
        return kind.up(self.record.name, node_image=self.node_image)

    def down(self, *, purge: bool) -> None:  # noqa: ARG002 (its images end with its node)
        """Delete it."""
        kind.down(self.record.name)

    def handle(self) -> Cluster:
        """Return what is recorded."""
        return kind.handle(self.record)

    def is_running(self) -> bool:
        """Whether kind has it."""
        return kind.is_running(self.record.name)

    def load_image(self, archive: BinaryIO) -> list[str]:
        """Stream it into the node."""
        return kind.handle(self.record).load_image(archive)


def provider(record: Record, *, gpu_nodes: int | None = None, node_image: str = "") -> Provider:
    """Who provides a cluster that is described like this."""
    if record.provider == existing.PROVIDER:
        return Existing(record)
    return Kind(record, node_image) if record.provider == kind.PROVIDER else Local(record, gpu_nodes)
