"""A claim that becomes full, or reaches a quota, while a model is written to it."""

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from inference_operator.jobs.result import Cause, Failure
from inference_operator.model_files.claim import ModelFolder
from inference_operator.model_files.download import download
from inference_operator.model_files.listing import ListedFile


@dataclass(frozen=True, slots=True)
class FullOrigin:
    """A model of one file; to write it fails with this error of the operating system."""

    number: int
    model: str = "org/model"
    source: str = "hf://org/model"
    errors: tuple[type[Exception], ...] = ()

    def commit(self, revision: str | None) -> str:
        return revision or "main"

    def listed(self, _commit: str) -> Iterable[ListedFile]:
        return [ListedFile("model.safetensors", 7)]

    def fetch(self, folder: ModelFolder, _commit: str, _file: ListedFile) -> None:
        raise OSError(self.number, os.strerror(self.number), str(folder.root))

    def finish(self, folder: ModelFolder, revision: str | None, commit: str) -> None:
        raise AssertionError(f"{commit} ({revision}) is not on {folder}")

    def failure(self, _revision: str | None, error: Exception) -> Failure:
        raise AssertionError(f"{error} is an error of the claim")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_write_that_finds_no_room_says_so_instead_of_a_need_of_nothing(tmp_path: Path, number: int) -> None:
    found = download(FullOrigin(number), "1", tmp_path, say=lambda _line: None)
    assert isinstance(found, Failure)
    assert found.cause is Cause.DISK_FULL
    problem = "could not be written for lack of space, or for a quota or a limit of files; the claim in"
    assert found.why.problem.startswith(problem)
    assert "more, and" not in found.message
