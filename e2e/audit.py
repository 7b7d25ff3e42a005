"""What the API server's audit log says that somebody did."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ANSWERED = frozenset({"ResponseStarted", "ResponseComplete"})
"""A watch is complete only when it ends, so its start counts too; every other request has one answer."""

LEASES = "leases"
TELLING = frozenset({"inferencedeployments/status", "events"})
"""Resources by whose writes the operator tells what it has done or seen, and changes nothing."""

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the operator's account."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.namespace}/{self.name} -> {self.code}"


class AuditLog:
    """The log, read from a mark on."""

    def __init__(self, path: Path, user: str) -> None:
        self._path = path
        self._user = user

    def mark(self) -> int:
        """Now, as a place in the log."""
        return self._path.stat().st_size if self._path.exists() else 0

    def requests(self, since: int = 0) -> list[Request]:
        """What the account asked for since a mark, answered or not."""
        return list(self._read(since))

    def renewals(self, since: int) -> list[Request]:
        """The writes of its Lease among them, by which its processes take turns."""
        return [r for r in self.requests(since) if r.verb in WRITES and r.resource == LEASES]

    def writes(self, since: int, *, namespace: str | None = None) -> list[Request]:
        """The writes among them but those of its Lease, of one namespace or of all."""
        found = [r for r in self.requests(since) if r.verb in WRITES and r.resource != LEASES]
        return [r for r in found if namespace in {None, r.namespace}]

    def _read(self, since: int) -> Iterator[Request]:
        with self._path.open("rb") as log:
            log.seek(since)
            for line in log:
                entry = json.loads(line)
                if entry["stage"] in _ANSWERED and entry["user"]["username"] == self._user:
                    what = entry.get("objectRef", {})
                    resource = what.get("resource", "") + (f"/{what['subresource']}" if "subresource" in what else "")
                    yield Request(
                        entry["verb"],
                        what.get("apiGroup", ""),
                        resource,
                        what.get("namespace", ""),
                        what.get("name", ""),
                        entry["responseStatus"]["code"],
                    )
