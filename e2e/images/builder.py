"""The interface of an image builder, and the base image."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

BASE = "docker.io/library/debian:trixie-slim"
"""The base of every Dockerfile: Debian 13, the first release with HAProxy 3.0."""
KEY_LABEL = "inference-operator.dev/inputs"
"""The image's label that holds the digest of its inputs."""

LOCAL_HOSTS = ("localhost", "127.0.0.1")
"""Registries on this machine; clients use them without TLS."""


def registry_host(reference: str) -> str:
    """The host of an image's registry, without the port.

    >>> registry_host("localhost:5000/inference-operator/router:1")
    'localhost'
    """
    return reference.partition("/")[0].partition(":")[0]


class Builder(Protocol):
    """Builds and stores images. `name` appears in progress lines and names the log file."""

    def ensure_base(self, reference: str) -> str:
        """Pull the base image, or make it from Debian packages; returns its ID."""

    def key(self, reference: str) -> str | None:
        """The key in an image's label, or None without the image."""

    def build(self, name: str, reference: str, dockerfile: Path, *, context: Path, key: str) -> None:
        """Build an image, with the key as a label."""

    def run(self, name: str, reference: str, command: Sequence[str], volumes: Mapping[Path, str]) -> None:
        """Run a command as root in a new container of an image, with folders and the network of the host."""

    def write(self, reference: str, into: BinaryIO) -> None:
        """Write an image as an uncompressed archive."""
