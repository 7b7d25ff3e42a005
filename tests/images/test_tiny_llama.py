"""The test model: created once, complete or not at all, and packed as an image."""

import io
import tarfile
from pathlib import Path

import pytest

from e2e.images.catalogue import Dockerfile
from e2e.images.errors import ImageError
from e2e.model import tiny_llama
from e2e.model.tiny_llama import TinyLlama
from tests.images.kept import KeptInMemory

MODEL = TinyLlama(engine=Dockerfile("engine-cpu", inputs=("images/engine-cpu",)))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "inference-operator" / "images" / "tiny-llama"


def test_the_test_model_is_made_only_once_in_the_engine_image() -> None:
    builder = KeptInMemory()
    MODEL.ensure(builder)
    MODEL.ensure(builder)
    assert builder.built == [MODEL.engine.reference]
    assert len(builder.ran) == 1


def test_a_changed_script_replaces_the_test_model(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = KeptInMemory()
    MODEL.ensure(builder)
    script = tmp_path / "make_tiny_llama.py"
    script.write_text("other")
    monkeypatch.setattr(tiny_llama, "SCRIPT", script)
    MODEL.ensure(builder)
    assert len(builder.ran) == 2
    assert len(list(cache.iterdir())) == 1


def test_a_failed_run_leaves_no_test_model(cache: Path) -> None:
    with pytest.raises(ImageError):
        MODEL.ensure(KeptInMemory(run_fails=True))
    assert not list(cache.iterdir())


def test_the_image_of_the_test_model_has_the_model_files_at_its_root() -> None:
    builder, archive = KeptInMemory(), io.BytesIO()
    MODEL.ensure(builder)
    MODEL.write(builder, archive)
    with tarfile.open(fileobj=io.BytesIO(archive.getvalue())) as outer:
        layers = [member for member in outer if member.size and _is_tar(outer, member)]
        assert len(layers) == 1
        file = outer.extractfile(layers[0])
        assert file is not None
        with tarfile.open(fileobj=file) as layer:
            assert layer.getnames() == ["config.json"]


def test_packing_a_missing_test_model_names_the_command_that_creates_the_model() -> None:
    with pytest.raises(ImageError, match=r"python -m e2e\.images build tiny-llama"):
        MODEL.write(KeptInMemory(), io.BytesIO())


def _is_tar(outer: tarfile.TarFile, member: tarfile.TarInfo) -> bool:
    file = outer.extractfile(member)
    assert file is not None
    try:
        tarfile.open(fileobj=file).close()
    except tarfile.ReadError:
        return False
    return True
