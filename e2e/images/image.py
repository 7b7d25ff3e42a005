"""What every image of the project can do, however it is made."""

from typing import BinaryIO, Protocol

from e2e.images.builder import Builder

REPOSITORY = "localhost/inference-operator"
"""Not a registry: containerd and buildah keep images of this host by this name."""


class Image(Protocol):
    """An image with a name, made when its inputs changed, and written as an archive."""

    @property
    def reference(self) -> str:
        """Full name with tag."""

    def ensure(self, builder: Builder) -> None:
        """Make it unless it is there and made from the same inputs."""

    def identity(self, builder: Builder) -> str:
        """What tells this build from others of the same name; empty if it is not built."""

    def write(self, builder: Builder, into: BinaryIO) -> None:
        """Write it as an uncompressed archive."""
