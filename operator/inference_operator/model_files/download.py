"""Downloads a model to a claim: one process at a time, and nothing half-done is marked.

A `ModelOrigin` is what differs between hubs and buckets. `flock` keeps other processes away from the same model on the
same claim. A large file is continued where an earlier process ended.
"""

import errno
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Protocol

from inference_operator.jobs.download_result import Downloaded
from inference_operator.jobs.result import Failure
from inference_operator.model_files.claim import (
    RECORDS,
    ModelFolder,
    Say,
    delete_leftovers,
    locked,
    present_bytes,
    record_complete,
    recorded,
    stored_bytes,
)
from inference_operator.model_files.files import InspectionError
from inference_operator.model_files.kernels import Kernels, prepare_kernels
from inference_operator.model_files.listing import ListedFile, claim_failed, disk_full, wanted_files
from inference_operator.objects.cache_volume import folder_of

AT_ONCE = 4
STEP_PERCENT = 5
"""Progress is printed once a step, since every step becomes a write of the status."""
LOOK_SECONDS = 1.0
_INVALID_ANSWERS = (OSError, ValueError, KeyError, TypeError)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_OF_NETWORK = (ConnectionError, TimeoutError, socket.gaierror)
"""Errors with a number that are not of the claim. The clients' own exceptions have none."""


class ModelOrigin(Protocol):
    @property
    def model(self) -> str:
        """The model as folders of a claim are named by it."""

    @property
    def source(self) -> str:
        """The model for messages, as `spec.model.source` has it."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Exceptions that its client raises, in addition to `OSError`."""

    def commit(self, revision: str | None) -> str:
        """The commit of the requested revision; the newest one for None."""

    def listed(self, commit: str) -> Iterable[ListedFile]:
        """All files of a revision."""

    def fetch(self, folder: ModelFolder, commit: str, file: ListedFile) -> None:
        """Download one file, compare it with the listing, and link it in the snapshot; raises `InspectionError`."""

    def finish(self, folder: ModelFolder, revision: str | None, commit: str) -> None:
        """Add the files that engines need in addition to the snapshot."""

    def failure(self, revision: str | None, error: Exception) -> Failure:
        """The failure for an error of the client."""


def download(
    origin: ModelOrigin,
    revision: str | None,
    root: Path,
    *,
    kernels: Sequence[Kernels] = (),
    say: Say,
    allow_pickle: bool = False,
    only: Sequence[str] = (),
) -> Downloaded | Failure:
    """Make the model complete on the claim, and create the folders of its compiled kernels."""
    folder = ModelFolder(root, folder_of(origin.model))
    failures: tuple[type[Exception], ...] = (*origin.errors, *_INVALID_ANSWERS)
    try:
        for parent in (folder.hub, root / RECORDS):
            parent.mkdir(parents=True, exist_ok=True)
        for line in chain.from_iterable(prepare_kernels(root, own) for own in kernels):
            say(line)
        with locked(folder.lock, say):
            return _complete(folder, origin, revision, say, allow_pickle=allow_pickle, only=only)
    except InspectionError as error:
        return error.failure
    except failures as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return disk_full(origin.source, 0, shutil.disk_usage(root).free)
        if isinstance(error, OSError) and error.errno and not isinstance(error, _OF_NETWORK):
            return claim_failed(origin.source, error.strerror or str(error))
        return origin.failure(revision, error)


def _complete(
    folder: ModelFolder, origin: ModelOrigin, revision: str | None, say: Say, *, allow_pickle: bool, only: Sequence[str]
) -> Downloaded | Failure:
    if revision and (done := recorded(folder, revision, only)):
        return done
    commit = origin.commit(revision)
    if done := recorded(folder, commit, only):
        return done
    files = wanted_files(origin.source, origin.listed(commit), allow_pickle=allow_pickle, only=only)
    if isinstance(files, Failure):
        return files
    folder.blobs.mkdir(parents=True, exist_ok=True)
    delete_leftovers(folder, files)
    total, present = sum(file.size_bytes for file in files), present_bytes(folder, files)
    free = shutil.disk_usage(folder.root).free
    if total - present > free:
        return disk_full(origin.source, total - present, free)
    others = stored_bytes(folder) - present  # of former revisions
    with _progress(lambda: stored_bytes(folder) - others, total, say), ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda file: origin.fetch(folder, commit, file), files))
    origin.finish(folder, revision, commit)
    result = Downloaded(commit, total, len(files))
    record_complete(folder, result, files, is_whole=not only)
    return result


@contextmanager
def _progress(stored: Callable[[], int], total: int, say: Say) -> Iterator[None]:
    over = threading.Event()

    def watch() -> None:
        started, first, reported = time.monotonic(), stored(), -1
        while not over.wait(LOOK_SECONDS):
            now = min(stored(), total)
            step = 100 * now // total // STEP_PERCENT * STEP_PERCENT
            if step > reported:
                reported = step
                say(progress_line(step, now, total, now - first, time.monotonic() - started))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def progress_line(percent: int, now: int, total: int, received: int, seconds: float) -> str:
    """One step of the progress.

    Examples:
        >>> progress_line(40, 62 * 10**9, 146 * 10**9, 62 * 10**9, 120)
        'Downloading 40 %, 62.0 of 146.0 GB, 3 min left'
        >>> progress_line(0, 0, 146 * 10**9, 0, 1)
        'Downloading 0 %, 0.0 of 146.0 GB'
    """
    left = f", {max(1, round((total - now) * seconds / received / 60))} min left" if received > 0 else ""
    return f"Downloading {percent} %, {now / 1e9:.1f} of {total / 1e9:.1f} GB{left}"
