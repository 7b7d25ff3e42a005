"""The interface of the project's images."""

from typing import BinaryIO, Protocol

from e2e.images.builder import Builder

REPOSITORY = "localhost/inference-operator"
"""No registry: the prefix of image names that containerd and buildah use for local images."""


class Image(Protocol):
    """An image that is built when its inputs change, and written as an archive."""

    @property
    def reference(self) -> str:
        """Full name with tag."""

    def ensure(self, builder: Builder) -> None:
        """Build the image unless it exists with the same inputs."""

    def identity(self, builder: Builder) -> str:
        """A string that differs between builds of the same name; empty if it is not built."""

    def write(self, builder: Builder, into: BinaryIO) -> None:
        """Write it as an uncompressed archive."""
