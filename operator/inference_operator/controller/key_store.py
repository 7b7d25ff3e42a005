"""When Secrets with keys of engines were last found to exist: by trying to create them, since none can be read."""

from datetime import datetime, timedelta

from inference_operator.manifest import Manifest, Ref
from inference_operator.status.write_results import Present, WriteResult

AGAIN = timedelta(minutes=5)
"""Time until it is tried again: somebody may have deleted the Secret. About that of a resync."""


class KeyStore:
    """The Secrets that exist, as far as is known."""

    def __init__(self) -> None:
        self._found: dict[Ref, datetime] = {}

    def due(self, secret: Manifest | None, now: datetime) -> Manifest | None:
        """The Secret, if it is time to try to create it."""
        found = self._found.get(Ref.of(secret)) if secret else None
        return None if found and now - found < AGAIN else secret

    def record(self, answer: WriteResult, now: datetime) -> None:
        """Take note of a write; what is over long ago is forgotten."""
        if isinstance(answer, Present):
            self._found = {ref: at for ref, at in self._found.items() if now - at < AGAIN}
            self._found[answer.ref] = now
