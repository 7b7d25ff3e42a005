"""A model on a claim, as downloads fill it: its folders, its lock, and the record that a download is complete."""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from inference_operator.jobs.download_result import Downloaded
from inference_operator.model_files.listing import ListedFile
from inference_operator.objects.cache_volume import HUB_FOLDER

RECORDS = "complete"
"""Folder of the claim with one record for each complete download, and the locks."""
PARTIAL = ".incomplete"
"""End of the name of a file that is not complete, as the hub's client has it."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ModelFolder:
    root: Path
    name: str
    """Name of the folder, of `folder_of`."""

    @property
    def hub(self) -> Path:
        """All models, in the layout of the hub's cache."""
        return self.root / HUB_FOLDER

    @property
    def path(self) -> Path:
        return self.hub / self.name

    @property
    def blobs(self) -> Path:
        return self.path / "blobs"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def lock(self) -> Path:
        return self.root / RECORDS / f"{self._stem}.lock"

    def partial(self, file: ListedFile) -> Path:
        return self.blobs / f"{file.blob}{PARTIAL}"

    def snapshot(self, commit: str) -> Path:
        return self.snapshots / commit

    def link(self, file: ListedFile, commit: str) -> None:
        link = self.snapshot(commit) / file.path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(self.blobs / file.blob, link.parent))

    def record(self, commit: str) -> Path:
        return self.root / RECORDS / f"{self._stem}@{commit}.json"

    @property
    def _stem(self) -> str:
        return self.name.removeprefix("models--")


@contextmanager
def locked(path: Path, say: Say) -> Iterator[None]:
    """Hold the lock of a model; the kernel, or the NFS server, releases it when the process or its node dies."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another Job that downloads this model to the same claim.")
            fcntl.flock(file, fcntl.LOCK_EX)
        os.utime(path)  # `infd prune` keeps what a Job has just used
        yield


def recorded(folder: ModelFolder, commit: str, only: Sequence[str] = ()) -> Downloaded | None:
    """The record of a complete download; None if there is none, or if one of its files has gone.

    Args:
        only: files, the first of which the download must have taken; empty for all that engines load.
    """
    try:
        record = json.loads(folder.record(commit).read_text(encoding="utf-8"))
        sizes = {str(path): int(size) for path, size in record["sizes"].items()}
        if only[0] not in sizes if only else record.get("isPart"):
            return None
        asked = {path: size for path, size in sizes.items() if path in only} if only else sizes
        snapshot = folder.snapshot(commit)
        if any((snapshot / path).stat().st_size != size for path, size in asked.items()):
            return None
        return Downloaded(commit, sum(asked.values()), len(asked)) if only else Downloaded(**record["downloaded"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def record_complete(folder: ModelFolder, result: Downloaded, files: Sequence[ListedFile], *, is_whole: bool) -> None:
    """Wait until all contents are on the disk, then write the record in one step.

    A part of a repository, such as one of several GGUF models, is added to the parts that are there.
    """
    for file in files:
        with (folder.snapshot(result.commit) / file.path).open("rb") as content:
            os.fsync(content.fileno())
    path = folder.record(result.commit)
    former = {} if is_whole else _former(path, folder.snapshot(result.commit))
    sizes = {**former.get("sizes", {}), **{file.path: file.size_bytes for file in files}}
    part = {} if is_whole or former.get("isWhole") else {"isPart": True}
    text = json.dumps({"downloaded": former.get("downloaded", asdict(result)), "sizes": sizes, **part})
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as record:
        record.write(text)
        record.flush()
        os.fsync(record.fileno())
    partial.replace(path)


def _former(record: Path, snapshot: Path) -> Mapping[str, Any]:
    """The former record with the files that are still there, and whether they are still a whole model; or nothing."""
    try:
        former = json.loads(record.read_text(encoding="utf-8"))
        sizes = {path: size for path, size in former["sizes"].items() if _has(snapshot / path, size)}
        is_whole = not former.get("isPart") and sizes == former["sizes"]
        return {"sizes": sizes, "isWhole": is_whole, **({"downloaded": former["downloaded"]} if is_whole else {})}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _has(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def digest_of(path: Path, algorithm: "str | Callable[[], hashlib._Hash]") -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def delete_leftovers(folder: ModelFolder, files: Sequence[ListedFile]) -> None:
    """Delete the parts of files that earlier processes left and no download continues."""
    continued = {folder.partial(file) for file in files}
    for part in folder.blobs.glob(f"*{PARTIAL}"):
        if part not in continued:
            part.unlink(missing_ok=True)


def present_bytes(folder: ModelFolder, files: Sequence[ListedFile]) -> int:
    """Bytes of these files that are on the claim, also of parts. Small files of a hub have other names there."""
    total = 0
    for file in files:
        for path in (folder.blobs / file.blob, folder.partial(file)):
            if path.is_file():
                total += min(path.stat().st_size, file.size_bytes)
                break
    return total


def stored_bytes(folder: ModelFolder) -> int:
    """Bytes of the model that are on the claim: of all revisions, and of files that are not complete."""
    total = 0
    with suppress(FileNotFoundError):
        for entry in os.scandir(folder.blobs):
            with suppress(FileNotFoundError):  # it was renamed, now that it is complete
                total += entry.stat(follow_symlinks=False).st_size
    return total
