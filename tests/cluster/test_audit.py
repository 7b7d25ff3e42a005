"""Reading the API server's audit log while the API server writes it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.localkube import audit_log
from e2e.localkube.audit_log import AuditLog

USER = "operator"


def _line(name: str) -> str:
    target = {"resource": "services", "namespace": "default", "name": name}
    entry = {"stage": "ResponseComplete", "verb": "create", "user": {"username": USER}, "objectRef": target}
    return json.dumps({**entry, "responseStatus": {"code": 201}}) + "\n"


@contextmanager
def _completed(path: Path, rest: str) -> Iterator[None]:
    """Another thread writes the rest of the last line within the block."""

    def write_the_rest() -> None:
        with path.open("a") as log:
            log.write(rest)

    writer = threading.Timer(0.2, write_the_rest)
    writer.start()
    try:
        yield
    finally:
        writer.join()


def test_a_half_written_last_line_is_read_once_its_rest_is_there(tmp_path: Path) -> None:
    path, (first, second) = tmp_path / "audit.log", (_line("one"), _line("two"))
    path.write_text(first + second[:40])
    with _completed(path, second[40:]):
        assert [request.name for request in AuditLog(path, USER).writes(0)] == ["one", "two"]


def test_a_mark_waits_for_the_end_of_a_line_that_is_being_written(tmp_path: Path) -> None:
    path, (first, second) = tmp_path / "audit.log", (_line("one"), _line("two"))
    assert AuditLog(path, USER).mark() == 0
    path.write_text(first + second[:40])
    with _completed(path, second[40:]):
        mark = AuditLog(path, USER).mark()
    assert mark == len(first + second)
    with path.open("a") as log:
        log.write(_line("three"))
    assert [request.name for request in AuditLog(path, USER).requests(mark)] == ["three"]


def test_a_line_that_is_never_completed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.log"
    path.write_text(_line("one") + '{"kind"')
    monkeypatch.setattr(audit_log, "_LINE_SECONDS", 0.1)
    with pytest.raises(TimeoutError, match="not completed"):
        AuditLog(path, USER).writes(0)


def test_requests_that_were_over_before_their_user_was_known_are_nobodys(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    unknown = {"stage": "ResponseComplete", "verb": "list", "user": {}, "responseStatus": {"code": 401}}
    path.write_text(json.dumps(unknown) + "\n" + _line("one"))
    assert [request.name for request in AuditLog(path, USER).requests(0)] == ["one"]
