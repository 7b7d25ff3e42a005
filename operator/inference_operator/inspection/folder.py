"""A model in a folder: of a volume, of an image, or of the hub's cache."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from inference_operator.inspection.files import MOST_FILES, Files, InspectionError, inspect_files, unreadable
from inference_operator.models.inspected import Cause, Failure, Inspection, unusable
from inference_operator.models.not_understood import NotUnderstood


def inspect_folder(folder: Path, *, name: str, source: str, commit: str = "") -> Inspection:
    """What is known of the model in a folder.

    Args:
        folder: where it is.
        name: the model, as its user knows it.
        source: where the folder comes from.
        commit: its state, if that is known.
    """
    try:
        return inspect_files(Files(name, source, _sizes(folder, name), folder.joinpath, commit))
    except InspectionError as error:
        return error.failure


def _sizes(folder: Path, name: str) -> dict[str, int]:
    if folder.is_file():
        cure = "Name the folder that it is in, with the model's `config.json` beside it, in `spec.model.source`."
        raise InspectionError(
            Failure(Cause.NOT_FOUND, NotUnderstood(name, "is a file, not the folder of a model.", cure))
        )
    if not folder.is_dir():
        cure = "Check the path in `spec.model.source`, and that the model has been copied there."
        raise InspectionError(Failure(Cause.NOT_FOUND, NotUnderstood(name, "there is no such folder.", cure)))
    if not os.access(folder, os.R_OK | os.X_OK):
        raise InspectionError(unreadable(name))
    found = dict(islice(_files(folder), MOST_FILES + 1))
    if len(found) > MOST_FILES:
        problem = f"holds more than {MOST_FILES:,} files."
        raise InspectionError(unusable(NotUnderstood(name, problem, "Give the folder of one model.")))
    return found


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Path and size of each file; what is hidden is no part of a model. Those that vanish meanwhile are not there."""
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".")]
        for each in names:
            path = Path(place, each)
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path.stat().st_size
