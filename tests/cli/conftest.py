import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from inference_operator.cli.main import main
from tests.testing.stored_answers import stored_answers

Infd = Callable[..., tuple[int, str, str]]


def only(output: str) -> dict[str, Any]:
    """The one object of a list for programs."""
    (found,) = yaml.safe_load(output)["items"]
    return dict(found)


@pytest.fixture
def infd(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Infd:
    """Run `infd`, with a text on its standard input and options of `main`; returns status, output and complaints."""

    def run(*arguments: str, stdin: str = "", **options: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as end:
            main(arguments, None, **options)
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return run


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, bytes]]:
    """The answers of an API server that the kubeconfig names."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with stored_answers(tmp_path / "config") as answers:
        yield answers
