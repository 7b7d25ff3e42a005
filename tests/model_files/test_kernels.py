"""Folders of compiled kernels on a claim: bounded in size, and never taken from under an engine."""

import os
from pathlib import Path

from inference_operator.model_files.kernels import Kernels, prepare_kernels

KIB = 2**10


def folder(root: Path, name: str, *, used: int, size: int = KIB) -> Path:
    """A folder with one file below another folder."""
    path = root / "compiled" / name
    (path / "triton").mkdir(parents=True)
    (path / "triton" / "kernel.so").write_bytes(b"x" * size)
    os.utime(path, (used, used))
    return path


def names(path: Path) -> list[str]:
    return [one.name for one in path.iterdir()]


def test_the_least_recently_used_kernels_are_deleted_above_the_limit_and_their_folders_stay(tmp_path: Path) -> None:
    old, older, recent = (folder(tmp_path, name, used=at) for name, at in (("b", 20), ("a", 10), ("c", 30)))
    said = list(prepare_kernels(tmp_path, Kernels("new"), limit_bytes=2 * KIB))
    assert said == ["Emptied compiled/a, 0.0 GiB: least recently used."]
    assert (names(older), names(old), names(recent)) == ([], ["triton"], ["triton"])
    assert (tmp_path / "compiled/new").is_dir()


def test_an_engine_s_own_kernels_are_kept_also_above_the_limit(tmp_path: Path) -> None:
    own, other = folder(tmp_path, "own", used=10, size=9 * KIB), folder(tmp_path, "other", used=20)
    assert len(list(prepare_kernels(tmp_path, Kernels("own"), limit_bytes=KIB))) == 1
    assert (names(own), names(other)) == (["triton"], [])


def test_a_link_out_of_the_claim_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("x" * KIB)
    root = tmp_path / "claim"
    folder(root, "a", used=10)
    (root / "compiled/a/link").symlink_to(outside)
    (root / "compiled/b").symlink_to(outside)
    assert len(list(prepare_kernels(root, Kernels("new"), limit_bytes=1))) == 1
    assert names(outside) == ["file"]


def test_broken_kernels_are_deleted_and_their_folder_stays(tmp_path: Path) -> None:
    own, other = folder(tmp_path, "own", used=10), folder(tmp_path, "other", used=20)
    said = list(prepare_kernels(tmp_path, Kernels("own", empty_first=True)))
    assert said == ["Emptied compiled/own: an engine found its kernels broken."]
    assert (names(own), names(other)) == ([], ["triton"])
