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
class Kernels:
    key: str
    empty_first: bool = False
    """Whether to empty it, because an engine found its kernels broken."""


def prepare_kernels(root: Path, kernels: Kernels, *, limit_bytes: int = COMPILED_GIB * GIB) -> Iterator[str]:
    """Create the folder of an engine's kernels, and empty the least recently used others above the limit."""
    own = root / COMPILED_FOLDER / kernels.key
    own.mkdir(parents=True, exist_ok=True)
    if kernels.empty_first:
        empty(own)
        yield f"Emptied {COMPILED_FOLDER}/{kernels.key}: an engine found its kernels broken."
    os.utime(own)
    sizes = {folder: bytes_of(folder) for folder in subfolders(own.parent)}
    total = sum(sizes.values())
    for folder in sorted(sizes, key=lambda folder: folder.stat().st_mtime):
        if total <= limit_bytes:
            return
        if folder != own and sizes[folder]:
            empty(folder)
            total -= sizes[folder]
            size = f"{sizes[folder] / GIB:.1f} GiB"
            yield f"Emptied {COMPILED_FOLDER}/{folder.name}, {size}: least recently used."


def subfolders(parent: Path) -> list[Path]:
    """The folders in a folder, without links; none if it is a link itself, or is not there."""
    return [path for path in entries(parent) if path.is_dir() and not path.is_symlink()]


def entries(parent: Path) -> list[Path]:
    return sorted(parent.iterdir()) if parent.is_dir() and not parent.is_symlink() else []


def bytes_of(path: Path) -> int:
    """Bytes of a file or of everything in a folder; a link counts as nothing."""
    try:
        if path.is_symlink():
            return 0
        if not path.is_dir():
            return path.lstat().st_size
        files = (Path(parent) / name for parent, _, names in os.walk(path) for name in names)
        return sum(map(bytes_of, files))
    except FileNotFoundError:  # an engine has just replaced it
        return 0


def delete(path: Path, *, ignore_errors: bool = False) -> None:
    """Delete a file, or a folder. `rmtree` deletes links themselves, not their targets."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=ignore_errors)
    else:
        path.unlink(missing_ok=True)


def empty(folder: Path) -> None:
    """Empty a folder of kernels. The folder stays, since an engine may have just mounted it, with its last use."""
    used = folder.stat().st_mtime
    for path in entries(folder):
        delete(path, ignore_errors=True)
    os.utime(folder, (used, used))
