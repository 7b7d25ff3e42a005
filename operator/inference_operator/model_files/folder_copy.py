"""Copies the files of an adapter from a mounted claim or image to the claim of `spec.cache`."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from inference_operator.jobs.result import Cause, Failure
from inference_operator.model_files.claim import ModelFolder
from inference_operator.model_files.download import DamagedError
from inference_operator.model_files.files import InspectionError, unreadable
from inference_operator.model_files.listing import ListedFile, wrong_content
from inference_operator.models.config import NotUnderstood


class FolderOrigin:
    errors: tuple[type[Exception], ...] = ()

    def __init__(self, source: str, folder: Path, names: tuple[str, ...]) -> None:
        self.model = self.source = source
        self._folder, self._names = folder, names

    def commit(self, revision: str | None) -> str:  # noqa: ARG002 - a folder has one content
        """The digest of source and content: another content has another folder on the claim."""
        digest = hashlib.sha1(self.source.encode(), usedforsecurity=False)
        for file in self.listed(""):
            digest.update(f"{file.path} {file.sha256}\n".encode())
        return digest.hexdigest()

    def listed(self, commit: str) -> Iterator[ListedFile]:  # noqa: ARG002 - a folder has one content
        """The files that are there. A link counts only if it stays in the folder's volume."""
        if not self._folder.is_dir():
            cure = "Check the path in `source`, and that the adapter was copied there."
            raise InspectionError(
                Failure(Cause.NOT_FOUND, NotUnderstood(self.source, "there is no such directory.", cure))
            )
        for name in self._names:
            path = self._folder / name
            if not path.is_file():
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(self._folder.resolve()):
                raise InspectionError(
                    Failure(
                        Cause.UNUSABLE,
                        NotUnderstood(
                            self.source, f"`{name}` is a link out of its folder.", "Replace it by the file itself."
                        ),
                    )
                )
            try:
                yield ListedFile(name, path.stat().st_size, _sha256(path))
            except PermissionError as error:
                raise InspectionError(unreadable(self.source)) from error

    def fetch(self, folder: ModelFolder, commit: str, file: ListedFile) -> None:
        """Copy one file, compare it with its hash, and link it in the snapshot."""
        blob, partial = folder.blobs / file.blob, folder.partial(file)
        shutil.copyfile(self._folder / file.path, partial)
        if _sha256(partial) != file.sha256:
            partial.unlink()
            raise DamagedError(wrong_content(self.source, file.path, "SHA-256"))
        partial.replace(blob)
        link = folder.snapshot(commit) / file.path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))

    def finish(self, folder: ModelFolder, revision: str | None, commit: str) -> None:
        """Nothing: engines get the path of the snapshot."""

    def failure(self, revision: str | None, error: Exception) -> Failure:  # noqa: ARG002 - there is no client
        return unreadable(f"{self.source}: {type(error).__name__}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
