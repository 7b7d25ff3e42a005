"""Files of a repository's listing, whose names and sizes come from strangers."""

import os
from pathlib import PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inference_operator.jobs.result import Cause, Failure
from inference_operator.model_files.listing import MAX_FILES, ListedFile, is_safe_name, wanted_files

PARTS = st.sampled_from(["..", ".", "", "a", "b.json", "~", " ", "\\", "c:", "\0", "…", "-rf"]) | st.text(max_size=8)


@given(st.lists(PARTS, min_size=1, max_size=6).map("/".join))
@example("a/..\x00/b")
def test_a_safe_name_stays_below_every_folder(name: str) -> None:
    if is_safe_name(name):
        joined = os.path.normpath(f"/cache/snapshots/{name}")
        assert joined.startswith("/cache/snapshots/")
        assert ".." not in PurePosixPath(name).parts


@pytest.mark.parametrize(
    "name",
    ["../../../evil", "/etc/evil", "a/../../../../evil", "a\\..\\evil", "a\0b", "..", "a//b", "ü" * 128],
)
def test_a_name_that_leaves_the_cache_or_is_too_long_for_a_disk_is_refused(name: str) -> None:
    found = wanted_files("org/name", [ListedFile(name, 3)])
    assert isinstance(found, Failure)
    assert "unsafe name" in found.why.problem


@pytest.mark.parametrize("digest", ["../" * 21 + "a", "0" * 63, "0" * 65, "A" * 64, "0" * 64 + "\n"])
def test_a_sha256_that_is_none_names_no_file_of_a_claim(digest: str) -> None:
    found = wanted_files("org/name", [ListedFile("a.json", 3, digest)])
    assert isinstance(found, Failure)
    assert "wrong SHA-256" in found.why.problem


@given(st.lists(st.tuples(st.lists(PARTS, max_size=4).map("/".join), st.integers(-5, 2**70)), max_size=20))
def test_a_listing_is_refused_or_every_wanted_file_is_safe_and_not_negative(files: list[tuple[str, int]]) -> None:
    found = wanted_files("org/name", [ListedFile(path, size) for path, size in files])
    if isinstance(found, Failure):
        assert found.cause is Cause.DAMAGED
        return
    assert all(is_safe_name(file.path) and file.size_bytes >= 0 for file in found)
    assert [file.path for file in found] == sorted({file.path for file in found})


def paths(*listed: str, allow_pickle: bool = False) -> list[str] | str:
    """The wanted files, or why there are none."""
    found = wanted_files("org/name", [ListedFile(path, 3) for path in listed], allow_pickle=allow_pickle)
    return found.why.problem if isinstance(found, Failure) else [file.path for file in found]


def test_the_other_layout_of_the_same_weights_is_not_downloaded() -> None:
    """As in openai/gpt-oss-20b, which has its weights three times."""
    listed = ("config.json", "model-00000-of-00002.safetensors", "original/model.safetensors", "metal/model.bin")
    assert paths(*listed) == ["config.json", "model-00000-of-00002.safetensors"]


@pytest.mark.parametrize(
    ("layer", "consent", "found"),
    [
        (["2_Dense/model.safetensors", "2_Dense/pytorch_model.bin"], False, ["2_Dense/model.safetensors"]),
        (["2_Dense/pytorch_model.bin"], True, ["2_Dense/pytorch_model.bin"]),
        (["onnx/pytorch_model.bin", "onnx/model.onnx"], False, []),
    ],
)
def test_the_layer_behind_the_pooling_of_an_embedding_model_is_downloaded(
    layer: list[str], found: list[str], *, consent: bool
) -> None:
    assert paths("model.safetensors", *layer, allow_pickle=consent) == [*found, "model.safetensors"]


def test_a_gguf_file_does_not_excuse_a_pickle_file_beside_it() -> None:
    """vLLM loads the pickle files of such a folder."""
    assert str(paths("model-q4.gguf", "pytorch_model.bin")).startswith("`pytorch_model.bin` is needed.")
    assert paths("model-q4.gguf", "training_args.bin") == ["model-q4.gguf", "training_args.bin"]


def test_a_layer_in_a_pickle_file_needs_consent() -> None:
    said = paths("model.safetensors", "2_Dense/pytorch_model.bin")
    assert said.startswith("`2_Dense/pytorch_model.bin` is needed. Such files are pickle files")  # type: ignore[union-attr]


def test_a_path_that_is_a_file_and_a_folder_is_refused() -> None:
    assert paths("a", "b/c", "a/d/e") == "lists `a` as a file and as a folder."


def test_ten_thousand_files_are_accepted_and_an_endless_listing_is_refused() -> None:
    many = [ListedFile(f"{number}.json", 1) for number in range(10_000)]
    assert len(wanted_files("org/name", many)) == 10_000  # type: ignore[arg-type]
    endless = (ListedFile(f"{number}.json", 1) for number in range(MAX_FILES + 10))
    assert isinstance(wanted_files("org/name", endless), Failure)
    assert next(endless).path == f"{MAX_FILES + 1}.json"
