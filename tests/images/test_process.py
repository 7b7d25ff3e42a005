"""Long commands write a log file, and their error contains its last lines."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.images.errors import ImageError
from e2e.images.process import SHOWN_LINES, log_path, output, run_logged, succeeds


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_each_line_of_a_command_goes_to_the_log_and_to_the_callback() -> None:
    seen: list[str] = []
    run_logged("thing", ["sh", "-c", "echo one; echo two >&2"], seen.append)
    assert seen == ["one", "two"]
    assert log_path("thing").read_text() == "one\ntwo\n"


def test_a_failed_command_reports_status_log_file_and_last_lines() -> None:
    with pytest.raises(ImageError) as failure:
        run_logged("thing", ["sh", "-c", "seq 100; exit 3"])
    message = str(failure.value)
    assert "status 3" in message
    assert str(log_path("thing")) in message
    assert message.splitlines()[1:] == [str(number) for number in range(101 - SHOWN_LINES, 101)]


def test_command_output_that_is_not_utf_8_is_accepted() -> None:
    run_logged("thing", ["sh", "-c", r"printf '\377\n'"])


def test_an_interrupted_command_is_stopped() -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt(line)

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as interrupted:
        run_logged(
            "thing",
            [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"],
            interrupt,
        )
    assert time.monotonic() - start < 30
    assert not Path(f"/proc/{interrupted.value}").exists()


def test_a_short_command_returns_its_output_or_raises_its_error() -> None:
    assert output(["echo", "yes"]) == "yes\n"
    with pytest.raises(ImageError, match="no such thing"):
        output(["sh", "-c", "echo no such thing >&2; exit 1"])
    assert succeeds(["true"])
    assert not succeeds(["false"])


def test_the_images_command_refuses_an_unknown_image() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "e2e.images", "build", "nothing"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert "engine-cpu" in answer.stderr
