"""A claim as downloads fill it: the folders, the lock of a model, and the record that a download is complete."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from inference_operator.jobs.download_result import Downloaded
from inference_operator.model_files.listing import ListedFile
from inference_operator.objects.cache_volume import HUB_FOLDER, folder_of

RECORDS = "complete"
"""Folder of the claim with one record for each complete download, and the locks."""
PARTIAL = ".incomplete"
"""End of the name of a file that is not complete, as the hub's client has it."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Claim:
    """The folders of a claim. A model is `org/name` on a hub, or `s3://bucket/path`."""

    root: Path

    @property
    def hub(self) -> Path:
        """Models in the layout of the hub's cache."""
        return self.root / HUB_FOLDER

    def model(self, model: str) -> Path:
        """The folder of one model."""
        return self.hub / folder_of(model)

    def blobs(self, model: str) -> Path:
        """The folder of its files' contents."""
        return self.model(model) / "blobs"

    def partial(self, model: str, file: ListedFile) -> Path:
        """The part of a file that has been downloaded."""
        return self.blobs(model) / f"{file.blob}{PARTIAL}"

    def snapshot(self, model: str, commit: str) -> Path:
        """The folder with links to the contents of one revision."""
        return self.model(model) / "snapshots" / commit

    def record(self, model: str, commit: str) -> Path:
        """The record that a download is complete."""
        return self.root / RECORDS / f"{_stem(model)}@{commit}.json"

    def lock(self, model: str) -> Path:
        """The lock of one model."""
        return self.root / RECORDS / f"{_stem(model)}.lock"


def _stem(model: str) -> str:
    return folder_of(model).removeprefix("models--")


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


def recorded(claim: Claim, model: str, commit: str) -> Downloaded | None:
    """The record of a complete download; None if there is none, or if one of its files has gone."""
    try:
        record = json.loads(claim.record(model, commit).read_text(encoding="utf-8"))
        sizes = {str(path): int(size) for path, size in record["sizes"].items()}
        folder = claim.snapshot(model, commit)
        if any((folder / path).stat().st_size != size for path, size in sizes.items()):
            return None
        return Downloaded(**record["downloaded"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def record_complete(claim: Claim, model: str, result: Downloaded, files: Sequence[ListedFile]) -> None:
    """Wait until all contents are on the disk, then write the record in one step."""
    for file in files:
        with (claim.snapshot(model, result.commit) / file.path).open("rb") as content:
            os.fsync(content.fileno())
    path = claim.record(model, result.commit)
    text = json.dumps({"downloaded": asdict(result), "sizes": {file.path: file.size_bytes for file in files}})
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as record:
        record.write(text)
        record.flush()
        os.fsync(record.fileno())
    partial.replace(path)


def delete_leftovers(claim: Claim, model: str, files: Sequence[ListedFile]) -> None:
    """Delete the parts of files that earlier processes left and no download continues."""
    continued = {claim.partial(model, file) for file in files}
    for part in claim.blobs(model).glob(f"*{PARTIAL}"):
        if part not in continued:
            part.unlink(missing_ok=True)


def present_bytes(claim: Claim, model: str, files: Sequence[ListedFile]) -> int:
    """Bytes of these files that are on the claim, also of parts. Small files of a hub have other names there."""
    total = 0
    for file in files:
        for path in (claim.blobs(model) / file.blob, claim.partial(model, file)):
            if path.is_file():
                total += min(path.stat().st_size, file.size_bytes)
                break
    return total


def stored_bytes(claim: Claim, model: str) -> int:
    """Bytes of the model that are on the claim: of all revisions, and of files that are not complete."""
    total = 0
    try:
        for entry in os.scandir(claim.blobs(model)):
            try:
                total += entry.stat(follow_symlinks=False).st_size
            except FileNotFoundError:  # it was renamed, now that it is complete
                continue
    except FileNotFoundError:
        return 0
    return total
