"""Images made from a Dockerfile in `images/`; a digest of their inputs shows which are outdated."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from e2e.images.builder import BASE, Builder
from e2e.images.image import REPOSITORY
from e2e.images.progress import say

ROOT = Path(__file__).parents[2]
"""The repository: the context that every Dockerfile is built in."""
KEY_DIGITS = 16
"""Length of a key: 64 bits of the digest, enough for the few images of a machine."""
_NOT_INPUTS = {"__pycache__"}


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The image of `images/NAME/Dockerfile`, whose inputs are files and folders of the repository."""

    name: str
    inputs: tuple[str, ...]

    @property
    def reference(self) -> str:
        """Full name with tag."""
        return f"{REPOSITORY}/{self.name}:dev"

    def ensure(self, builder: Builder) -> None:
        """Build the image unless it exists with the same inputs."""
        key = self.key(builder.ensure_base(BASE))
        if builder.key(self.reference) == key:
            say(self.name, "up to date")
            return
        dockerfile = ROOT / "images" / self.name / "Dockerfile"
        builder.build(self.name, self.reference, dockerfile, context=ROOT, key=key)

    def identity(self, builder: Builder) -> str:
        """The key of the build; empty if it is not built."""
        return builder.key(self.reference) or ""

    def write(self, builder: Builder, into: BinaryIO) -> None:
        """Write it as an uncompressed archive."""
        builder.write(self.reference, into)

    def key(self, base: str) -> str:
        """A digest of all inputs: the base image, and path, mode and content of every file."""
        digest = hashlib.sha256(base.encode())
        for path in self._files():
            digest.update(f"\0{path.relative_to(ROOT)}\0{path.stat().st_mode & 0o111}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:KEY_DIGITS]

    def _files(self) -> Iterator[Path]:
        for entry in self.inputs:
            path = ROOT / entry
            if path.is_file():
                yield path
            for child in sorted(path.rglob("*")):
                if child.is_file() and _NOT_INPUTS.isdisjoint(child.parts):
                    yield child
