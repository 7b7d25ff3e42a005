"""Inspects a model in a directory: of a volume, of an image, or of the hub cache."""

import os
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path

from inference_operator.jobs.inspection_result import InspectionResult, unusable
from inference_operator.jobs.result import Cause, Failure
from inference_operator.model_files.files import Files, InspectionError, inspect_files, unreadable
from inference_operator.model_files.listing import MAX_FILES
from inference_operator.models.checkpoint import gguf_parts
from inference_operator.models.config import NotUnderstood


def inspect_folder(
    folder: Path,
    *,
    name: str,
    source: str,
    commit: str = "",
    allow_pickle: bool = False,
    volume: Path | None = None,
    file: str = "",
) -> InspectionResult:
    """The config and weights of the model in a directory, or why it cannot be used.

    Args:
        file: name of a GGUF file, if the model is only that one and its further parts.
        volume: mount of the volume that no link may lead out of; None for a directory of the user's own.
    """

    def head(file: str, length: int) -> bytes:
        try:
            with (folder / file).open("rb") as content:
                return content.read(length)
        except OSError as error:
            raise InspectionError(unreadable(file)) from error

    try:
        sizes = _sizes(folder, name, gguf_parts(file))
        if volume is not None and _leads_out(folder, volume, sizes if file else None):
            return unusable(NotUnderstood(name, _LEADS_OUT, "Replace the link by the file itself."))
        return inspect_files(Files(name, source, sizes, folder.joinpath, head, commit, allow_pickle), file)
    except InspectionError as error:
        return error.failure


_LEADS_OUT = "has a link that leads out of the volume. An engine would read files of its own container through it."
"""For example a chat template that is a link to `/proc/self/environ`, whose text `/tokenize` and `/detokenize` show."""


def _leads_out(folder: Path, volume: Path, only: Collection[str] | None) -> bool:
    """Whether a link leads out of the volume, or to a directory out of the model's, where more links could be.

    The hub's cache has links to files elsewhere in the volume. Of a model of some files, `only` they count.
    """
    root, own = (Path(os.path.realpath(path)) for path in (volume, folder))  # realpath accepts a link to itself
    every = (Path(place, each) for place, folders, names in os.walk(folder) for each in (*folders, *names))
    paths = every if only is None else (folder / name for name in only)
    targets = (Path(os.path.realpath(path)) for path in paths if path.is_symlink())
    outside = (not target.is_relative_to(own if target.is_dir() else root) for target in targets)
    return not own.is_relative_to(root) or any(outside)


def _sizes(folder: Path, name: str, only: Sequence[str]) -> dict[str, int]:
    if folder.is_file():
        cure = "Set `spec.model.source` to the directory that contains the model's `config.json`."
        raise InspectionError(Failure(Cause.NOT_FOUND, NotUnderstood(name, "is a file, not a directory.", cure)))
    if not folder.is_dir():
        cure = "Check the path in `spec.model.source`, and that the model was copied there."
        raise InspectionError(Failure(Cause.NOT_FOUND, NotUnderstood(name, "there is no such directory.", cure)))
    if not os.access(folder, os.R_OK | os.X_OK):
        raise InspectionError(unreadable(name))
    if only:
        return {each: (folder / each).stat().st_size for each in only if (folder / each).is_file()}
    sizes = dict(islice(_files(folder), MAX_FILES + 1))
    if len(sizes) > MAX_FILES:
        problem = f"has more than {MAX_FILES:,} files."
        raise InspectionError(unusable(NotUnderstood(name, problem, "Use the directory of one model.")))
    return sizes


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Path and size of each file, without hidden files and files that vanish meanwhile."""
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".")]
        for each in names:
            path = Path(place, each)
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path.stat().st_size
