"""The archive of a support bundle: its members, and the file."""

import io
import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inference_operator.cli.parser import UsageError

READABLE_BY_OWNER = 0o600
"""Mode of the file: logs may have prompts in them."""


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One file of the archive."""

    path: str
    text: str

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.text.encode(errors="replace"))


def packed(members: Sequence[BundleFile], folder: str) -> bytes:
    """A gzipped tar file with the members below a folder."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for member in members:
            content = member.text.encode(errors="replace")
            head = tarfile.TarInfo(f"{folder}/{member.path}")
            head.size, head.mode = len(content), READABLE_BY_OWNER
            archive.addfile(head, io.BytesIO(content))
    return written.getvalue()


def write(path: Path, content: bytes) -> None:
    """Write a new file that only its owner may read.

    Raises:
        UsageError: it exists, or cannot be written.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, READABLE_BY_OWNER)
    except FileExistsError as error:
        raise UsageError(f"{path}: exists already. Choose another name with --file.") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UsageError(f"{path}: {error.strerror}.") from error
