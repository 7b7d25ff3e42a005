"""Deletes models, adapters and compiled kernels on a claim that no object uses, under the locks of the downloads.

Only folders that downloads make are looked at, no link is followed, and a model that a Job downloads now is left alone.
"""

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from inference_operator.model_files.claim import PARTIAL, RECORDS, ModelFolder
from inference_operator.model_files.kernels import bytes_of, delete, empty, entries, subfolders
from inference_operator.model_files.pruning import (
    RECENT_SECONDS,
    UNUSED,
    CachedRepository,
    Deletion,
    Item,
    PruneReport,
    deletion_of,
    kernels_kept,
)
from inference_operator.model_files.uses import Use, Uses
from inference_operator.models.source import COMMIT
from inference_operator.objects.cache_volume import ADAPTERS_FOLDER, COMPILED_FOLDER, HUB_FOLDER, model_of_folder

_ADAPTER = re.compile("(?:models|s3|pvc|oci)--")
"""How folders of adapters begin (`folder_of`)."""
_HUB_LOCKS = ".locks"
"""The hub client's own locks (huggingface_hub 2.4.0, `file_download.py`)."""


def prune(root: Path, uses: Uses, *, now: float, dry_run: bool) -> PruneReport:
    items: list[Item] = []
    freed = 0
    if (root / RECORDS).is_symlink():  # no download makes one, so the locks would be others
        return PruneReport((), 0, dry_run)
    for repository, used in _repositories(root, uses):
        repository_items, bytes_freed = _prune_repository(repository, used, now=now, dry_run=dry_run)
        items += repository_items
        freed += bytes_freed
    for folder in subfolders(root / COMPILED_FOLDER):
        size = bytes_of(folder)
        why = kernels_kept(folder.name, recent=now - folder.stat().st_mtime < RECENT_SECONDS, uses=uses)
        what = f"{COMPILED_FOLDER}/{folder.name}"
        items.append(Item(what, size, "kernels", "keep" if why else "delete", why or UNUSED))
        if not why:
            freed += size
            if not dry_run:
                empty(folder)
    return PruneReport(tuple(items), freed, dry_run)


def _repositories(root: Path, uses: Uses) -> Iterator[tuple[ModelFolder, Sequence[Use]]]:
    models = (path for path in subfolders(root / HUB_FOLDER) if model_of_folder(path.name))
    yield from ((ModelFolder(root, path.name), uses.models) for path in models)
    adapters = root / ADAPTERS_FOLDER
    if uses.adapters is None or adapters.is_symlink() or (adapters / RECORDS).is_symlink():
        return
    for path in subfolders(adapters / HUB_FOLDER):
        if _ADAPTER.match(path.name):
            yield ModelFolder(adapters, path.name), uses.adapters


def _prune_repository(folder: ModelFolder, uses: Sequence[Use], *, now: float, dry_run: bool) -> tuple[list[Item], int]:
    with _locked(folder.lock) as is_free:
        commits = [path.name for path in subfolders(folder.snapshots)]
        snapshots = {one: COMMIT.fullmatch(one) is not None and folder.record(one).is_file() for one in commits}
        recent = folder.lock.stat().st_mtime
        repository = CachedRepository(folder.name, snapshots, recent=now - recent < RECENT_SECONDS)
        decided = deletion_of(repository, uses) if is_free else Deletion(why="a Job downloads it now")
        items = [_item(folder, commit, decided, complete=done) for commit, done in sorted(snapshots.items())]
        doomed = list(_doomed(folder, decided, set(snapshots) - decided.commits))
        if not snapshots or not all(snapshots.values()):
            items.append(_parts(folder, decided))
        freed = sum(bytes_of(path) for path in doomed)
        if not dry_run:
            for path in doomed:
                delete(path)
        return items, freed


def _item(folder: ModelFolder, commit: str, decided: Deletion, *, complete: bool) -> Item:
    deleted = commit in decided.commits
    blobs = folder.blobs
    size = sum(bytes_of(blobs / name) for name in _linked(folder.snapshot(commit)))
    size += bytes_of(folder.snapshot(commit))
    state = "complete" if complete else "half-loaded"
    action, why = ("delete", UNUSED) if deleted else ("keep", decided.why)
    return Item(f"{_label(folder)}@{commit}", size, state, action, why)


def _parts(folder: ModelFolder, decided: Deletion) -> Item:
    size = sum(bytes_of(path) for path in entries(folder.blobs) if path.name.endswith(PARTIAL))
    action, why = ("delete", UNUSED) if decided.everything else ("keep", decided.why)
    return Item(f"{_label(folder)} (parts of files)", size, "half-loaded", action, why)


def _label(folder: ModelFolder) -> str:
    name = model_of_folder(folder.name) or folder.name
    return f"{ADAPTERS_FOLDER}/{name}" if folder.root.name == ADAPTERS_FOLDER else name


def _doomed(folder: ModelFolder, decided: Deletion, kept: set[str]) -> Iterator[Path]:
    """The files to delete, the records first: a model whose files go is complete no more."""
    yield from (path for commit in sorted(decided.commits) if (path := folder.record(commit)).is_file())
    if decided.everything:
        yield folder.path
        locks = folder.hub / _HUB_LOCKS
        if not locks.is_symlink() and (locks / folder.name).is_dir():
            yield locks / folder.name
        return
    if not decided.commits:
        return
    yield from _refs(folder.path / "refs", decided.commits)
    yield from (folder.snapshot(commit) for commit in sorted(decided.commits))
    needed = {name for commit in kept for name in _linked(folder.snapshot(commit))}
    yield from (path for path in entries(folder.blobs) if path.name not in needed)


def _refs(folder: Path, commits: frozenset[str]) -> Iterator[Path]:
    for path in entries(folder):
        if path.is_file() and not path.is_symlink() and path.read_text(errors="replace").strip() in commits:
            yield path


def _linked(snapshot: Path) -> set[str]:
    links = (Path(parent) / name for parent, _, names in os.walk(snapshot) for name in names)
    return {Path(link.readlink()).name for link in links if link.is_symlink()}


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of the downloads; False if a Job holds it. A new lock is not younger than its model."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        if is_new:
            os.utime(descriptor, (0, 0))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
