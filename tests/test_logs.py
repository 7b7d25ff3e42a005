import json
import logging
from collections.abc import Iterator

import pytest

from inference_operator.app import configure_logs


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_a_log_record_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    logging.getLogger("inference_operator").warning("cannot reconcile %s", "default/qwen")
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["logger"]) == ("WARNING", "inference_operator")
    assert entry["message"] == "cannot reconcile default/qwen"
    assert entry["time"]


def test_an_error_with_a_traceback_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    try:
        int("broken")
    except ValueError:
        logging.getLogger("inference_operator").exception("failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: invalid literal" in json.loads(line)["exc_info"]


def test_text_logs_contain_time_level_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text")
    logging.getLogger("inference_operator").info("serves %s", "the whole cluster")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("INFO    serves the whole cluster")
