"""Requests of one user, read from the API server's audit log."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_ANSWERED = frozenset({"ResponseStarted", "ResponseComplete"})
"""A watch reaches ResponseComplete only at its end, so ResponseStarted counts too; other requests have one answer."""

ATTACKER = "attacker"
"""User agent of tests that send requests with the operator's own token. They are not the operator's requests."""

LEASES = "leases"
REVIEWS = "localsubjectaccessreviews"
"""Questions about rights, which create no object."""
TELLING = frozenset({"inferencedeployments/status", "events"})
"""Resources in which the operator reports; writes of them change no other object."""

_LINE_SECONDS = 5.0
_QUIET_LIMIT_SECONDS = 60.0

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the service account, with the status code of its answer."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.namespace}/{self.name} -> {self.code}"


class AuditLog:
    """The audit log's entries of one user, read from a mark on."""

    def __init__(self, path: Path, user: str) -> None:
        self._path = path
        self._user = user

    def mark(self) -> int:
        """The end of the last line of the log, as an offset in bytes; waits for a line that is being written."""
        if not self._path.exists():
            return 0
        with self._path.open("rb") as log:
            log.seek(max(0, self._path.stat().st_size - 1))
            next(_complete_lines(log), b"")
            return log.tell()

    def requests(self, since: int = 0) -> list[Request]:
        """All requests of the user since a mark."""
        return list(self._read(since))

    def renewals(self, since: int) -> list[Request]:
        """Writes of Leases since a mark: leader election."""
        return [r for r in self.requests(since) if r.verb in WRITES and r.resource == LEASES]

    def writes(self, since: int, *, namespace: str | None = None) -> list[Request]:
        """Writes of everything except Leases since a mark, in one namespace or in all."""
        writes = [r for r in self.requests(since) if r.verb in WRITES and r.resource not in {LEASES, REVIEWS}]
        return [r for r in writes if namespace in {None, r.namespace}]

    def changes(self, since: int, *, namespace: str) -> list[Request]:
        """Writes in a namespace since a mark that are no reports."""
        return [w for w in self.writes(since, namespace=namespace) if w.resource not in TELLING]

    def quiet(self, seconds: float, *, namespace: str | None = None) -> int:
        """Wait until the user has written nothing for so long, in one namespace or in all; returns a mark."""
        deadline = time.monotonic() + _QUIET_LIMIT_SECONDS
        while True:
            mark = self.mark()
            time.sleep(seconds)
            if not (writes := self.writes(mark, namespace=namespace)):
                return self.mark()
            if time.monotonic() > deadline:
                raise AssertionError(f"writes did not end within {_QUIET_LIMIT_SECONDS:.0f} s: {writes[-1]}")

    def _read(self, since: int) -> Iterator[Request]:
        with self._path.open("rb") as log:
            log.seek(since)
            for line in _complete_lines(log):
                entry = json.loads(line)
                # A request that was over before anybody looked at its token has no user.
                own = entry["user"].get("username") == self._user and entry.get("userAgent") != ATTACKER
                if own and entry["stage"] in _ANSWERED:
                    target = entry.get("objectRef", {})
                    subresource = f"/{target['subresource']}" if "subresource" in target else ""
                    resource = target.get("resource", "") + subresource
                    yield Request(
                        entry["verb"],
                        target.get("apiGroup", ""),
                        resource,
                        target.get("namespace", ""),
                        target.get("name", ""),
                        entry["responseStatus"]["code"],
                    )


def _complete_lines(log: BinaryIO) -> Iterator[bytes]:
    """The log's lines; waits for the rest of a line that the API server is writing right now."""
    deadline = time.monotonic() + _LINE_SECONDS
    line = b""
    while part := log.readline() or line:
        line = part if part is line else line + part
        if line.endswith(b"\n"):
            yield line
            line = b""
        elif time.monotonic() > deadline:
            message = f"the last line of the audit log is not completed within {_LINE_SECONDS} s: {line[:200]!r}"
            raise TimeoutError(message)
        else:
            time.sleep(0.01)
