"""The folders of compiled kernels on a claim: created by the Job, and bounded in size.

Engines of other resources may use a folder now. So a folder itself is never deleted, only what is in it: an engine
that misses a kernel compiles it again.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from inference_operator.objects.cache_volume import COMPILED_FOLDER, COMPILED_GIB
from inference_operator.units import GIB


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path
    size_bytes: int
    used: float
    """Time of its last preparation by a Job, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """The folder of an engine's kernels."""

    key: str
    """Its name."""
    empty_first: bool = False
    """Whether to empty it, because an engine found its kernels broken."""


def prepare_kernels(root: Path, kernels: Kernels, *, limit_bytes: int = COMPILED_GIB * GIB) -> Iterator[str]:
    """Create the folder of an engine's kernels, and empty the least recently used others above the limit.

    Yields:
        One sentence for each folder that was emptied.
    """
    own = root / COMPILED_FOLDER / kernels.key
    own.mkdir(parents=True, exist_ok=True)
    if kernels.empty_first:
        _empty(_folder(own))
        yield f"Emptied {COMPILED_FOLDER}/{kernels.key}: an engine found its kernels broken."
    os.utime(own)
    folders = [_folder(path) for path in own.parent.iterdir() if path.is_dir() and not path.is_symlink()]
    total = sum(folder.size_bytes for folder in folders)
    for folder in sorted(folders, key=lambda folder: folder.used):
        if total <= limit_bytes:
            return
        if folder.path != own and folder.size_bytes:
            _empty(folder)
            total -= folder.size_bytes
            size = f"{folder.size_bytes / GIB:.1f} GiB"
            yield f"Emptied {COMPILED_FOLDER}/{folder.path.name}, {size}: least recently used."


def _folder(path: Path) -> _Folder:
    size = 0
    for parent, _, names in os.walk(path):
        for name in names:
            try:
                size += (Path(parent) / name).lstat().st_size
            except FileNotFoundError:  # an engine has just replaced it
                continue
    return _Folder(path, size, path.stat().st_mtime)


def _empty(folder: _Folder) -> None:
    """Empty the folder. The time of its last use stays."""
    for child in folder.path.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child, ignore_errors=True)
        else:
            child.unlink(missing_ok=True)
    os.utime(folder.path, (folder.used, folder.used))
