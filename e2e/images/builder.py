"""What builds and keeps images on this machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

BASE = "docker.io/library/debian:trixie-slim"
"""What every Dockerfile here starts from: Debian 13, the first release with HAProxy 3.0."""
KEY_LABEL = "inference-operator.dev/inputs"
"""The image's label that holds the digest of its inputs."""


class Builder(Protocol):
    """Builds images and keeps them. `name` is what progress lines and log files are called."""

    def ensure_base(self, reference: str) -> str:
        """Have the base image, pulled or else made from Debian's packages; its identity."""

    def key(self, reference: str) -> str | None:
        """The key that an image was built with, if it exists."""

    def build(self, name: str, reference: str, dockerfile: Path, *, context: Path, key: str) -> None:
        """Build an image, with the key as a label."""

    def run(self, name: str, reference: str, command: Sequence[str], volumes: Mapping[Path, str]) -> None:
        """Run a command as root in a new container of an image, with folders of the host mounted."""

    def write(self, reference: str, into: BinaryIO) -> None:
        """Write an image as an uncompressed archive."""
