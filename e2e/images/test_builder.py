"""The image builder of this machine, with an image that takes seconds."""

import io
import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.images.builder import Builder
from e2e.images.detect import found_builder
from e2e.images.errors import ImageError

REFERENCE = "localhost/inference-operator/test-of-the-builder:dev"


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A separate store, so that the project's images stay unchanged."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "Dockerfile").write_text('FROM scratch\nCOPY content /\nUSER 99:99\nCMD ["/content"]\n')
    (tmp_path / "content").write_text("first")
    return tmp_path


def test_a_built_image_has_its_key_and_can_be_written_as_an_archive(context: Path) -> None:
    builder = found_builder()
    assert builder.key(REFERENCE) is None
    builder.build("test", REFERENCE, context / "Dockerfile", context=context, key="one")
    assert builder.key(REFERENCE) == "one"
    with tarfile.open(fileobj=_written(builder)) as archive:
        manifest = json.loads(_content(archive, "manifest.json"))[0]
        assert manifest["RepoTags"] == [REFERENCE]
        configuration = json.loads(_content(archive, manifest["Config"]))["config"]
        assert (configuration["User"], configuration["Cmd"]) == ("99:99", ["/content"])


def test_a_rebuilt_image_replaces_the_old_one(context: Path) -> None:
    builder = found_builder()
    (context / "content").write_text("second")
    builder.build("test", REFERENCE, context / "Dockerfile", context=context, key="two")
    assert builder.key(REFERENCE) == "two"
    with tarfile.open(fileobj=_written(builder)) as archive:
        (layer,) = json.loads(_content(archive, "manifest.json"))[0]["Layers"]
        with tarfile.open(fileobj=io.BytesIO(_content(archive, layer))) as files:
            assert _content(files, "content") == b"second"


def test_the_builder_leaves_only_its_store_and_logs(cache: Path) -> None:
    home = cache / "inference-operator" / "images"
    assert {path.name for path in home.iterdir()} <= {"lock", "logs", "run", "storage"}


def test_a_build_that_fails_shows_its_last_lines_and_leaves_nothing_mounted(context: Path, cache: Path) -> None:
    (context / "Dockerfile").write_text("FROM scratch\nCOPY missing /\n")
    with pytest.raises(ImageError, match="missing"):
        found_builder().build("test", REFERENCE, context / "Dockerfile", context=context, key="three")
    mounted = Path("/proc/mounts").read_text().splitlines()
    assert not [line for line in mounted if str(cache) in line and "/merged" in line]


def test_an_image_that_does_not_exist_cannot_be_written() -> None:
    with pytest.raises(ImageError, match="not-there"):
        _written(found_builder(), "localhost/inference-operator/not-there:dev")


def _written(builder: Builder, reference: str = REFERENCE) -> io.BytesIO:
    with tempfile.TemporaryFile() as file:
        builder.write(reference, file)
        file.seek(0)
        return io.BytesIO(file.read())


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()
