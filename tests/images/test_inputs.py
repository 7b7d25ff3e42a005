"""An image is built again exactly when one of its inputs changed."""

from pathlib import Path

import pytest

from e2e.images import catalogue
from e2e.images.catalogue import Dockerfile
from tests.images.kept import KeptInMemory

IMAGE = Dockerfile("thing", inputs=("images/thing", "source", "lock"))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "images/thing/Dockerfile": "FROM base",
        "source/a.py": "a = 1",
        "source/deep/b.py": "b = 2",
        "lock": "1",
        "unrelated": "x",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    return tmp_path


def test_a_second_image_build_with_the_same_inputs_does_nothing(repository: Path) -> None:
    assert repository.is_dir()
    builder = KeptInMemory()
    IMAGE.ensure(builder)
    IMAGE.ensure(builder)
    assert builder.built == [IMAGE.reference]


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "images/thing/Dockerfile").write_text("FROM other"),
        lambda root: (root / "source/deep/b.py").write_text("b = 3"),
        lambda root: (root / "source/new.py").write_text(""),
        lambda root: (root / "source/a.py").rename(root / "source/c.py"),
        lambda root: (root / "source/a.py").chmod(0o755),
        lambda root: (root / "lock").unlink(),
    ],
    ids=["Dockerfile", "deep file", "new file", "renamed", "made executable", "removed"],
)
def test_a_changed_input_causes_a_new_image_build(repository: Path, change: object) -> None:
    builder = KeptInMemory()
    IMAGE.ensure(builder)
    assert callable(change)
    change(repository)
    IMAGE.ensure(builder)
    assert len(builder.built) == 2


def test_another_base_image_causes_a_new_image_build(repository: Path) -> None:
    assert repository.is_dir()
    builder = KeptInMemory()
    IMAGE.ensure(builder)
    builder.base = "sha256:newer"
    IMAGE.ensure(builder)
    assert len(builder.built) == 2


def test_changed_files_that_are_not_inputs_cause_no_image_build(repository: Path) -> None:
    builder = KeptInMemory()
    IMAGE.ensure(builder)
    (repository / "unrelated").write_text("y")
    (repository / "source/__pycache__").mkdir()
    (repository / "source/__pycache__/a.pyc").write_bytes(b"\0")
    IMAGE.ensure(builder)
    assert len(builder.built) == 1
