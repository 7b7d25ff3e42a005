"""What an inspection found, as one line of JSON that fits where Kubernetes keeps a pod's last words."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from inference_operator.models.entry import Entry, entry_document, entry_of
from inference_operator.models.not_understood import NotUnderstood

LIMIT = 4096
"""Bytes of a termination message (Kubernetes, "Determine the Reason for Pod Failure": 4096 of one container)."""

INSPECTOR_VERSION = 2
"""Goes up when facts depend on more of a model's files than before, so that models are inspected again."""

_CLIPS = (600, 100)
"""Characters of each part of a failure: the first that fits. A character takes up to 12 bytes in JSON."""


class Cause(StrEnum):
    """Why there are no facts of a model."""

    GATED = "Gated"
    NOT_FOUND = "NotFound"
    UNREACHABLE = "Unreachable"
    TIMED_OUT = "TimedOut"
    UNUSABLE = "Unusable"
    """The files are there, and are not those of a model that can be sized."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An inspection without facts."""

    cause: Cause
    why: NotUnderstood

    @property
    def message(self) -> str:
        """Field, problem and cure in one line."""
        return self.why.message


Inspection: TypeAlias = Entry | Failure


def unusable(why: NotUnderstood) -> Failure:
    """Files that say too little."""
    return Failure(Cause.UNUSABLE, why)


def inspection_text(found: Inspection) -> str:
    """One line of JSON of at most `LIMIT` bytes.

    Examples:
        >>> text = inspection_text(Failure(Cause.GATED, NotUnderstood("hf://a/b", "is gated.", "Set `HF_TOKEN`.")))
        >>> text
        '{"error":{"cause":"Gated","field":"hf://a/b","problem":"is gated.","cure":"Set `HF_TOKEN`."}}'
        >>> inspection(text).message
        'hf://a/b: is gated. Set `HF_TOKEN`.'
    """
    if isinstance(found, Failure):
        return next(text for clip in _CLIPS if len(text := _failure(found, clip)) <= LIMIT)
    text = _line(entry_document(found))
    if len(text) <= LIMIT:
        return text
    problem = f"what sizing reads of it is longer than {LIMIT} bytes."
    return inspection_text(unusable(NotUnderstood("config.json", problem, "Use a model of the usual form.")))


def inspection(text: str) -> Inspection | None:
    """Read such a line; None where it is none, whatever a hand has made of it.

    Examples:
        >>> inspection("Killed") is None
        True
    """
    try:
        fields = json.loads(text) if len(text) <= LIMIT else None
        return _read(fields) if isinstance(fields, dict) else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _read(fields: dict[str, object]) -> Inspection | None:
    error = fields.get("error")
    if isinstance(error, dict):
        words = NotUnderstood(*(str(error[part]) for part in ("field", "problem", "cure")))
        return Failure(Cause(error["cause"]), words)
    found = entry_of(fields)
    texts = (found.name, found.source, found.commit, found.weights.origin if found.weights else "")
    good = all(isinstance(text, str) for text in texts) and isinstance(found.config, dict)
    return found if good and found.weights is not None and found.weights.total_bytes > 0 else None


def _failure(failure: Failure, clip: int) -> str:
    parts = {"field": failure.why.field, "problem": failure.why.problem, "cure": failure.why.cure}
    clipped = {name: text[:clip] for name, text in parts.items()}
    return _line({"error": {"cause": failure.cause.value, **clipped}})


def _line(document: dict[str, object]) -> str:
    return json.dumps(document, separators=(",", ":"))
