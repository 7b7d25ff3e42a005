"""The result of an inspection, as one line of JSON that fits into a container's termination message."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.models.checkpoint import PickleWeights
from inference_operator.models.config import NotUnderstood
from inference_operator.models.entry import Entry, entry_document, entry_of

LIMIT = 4096
"""Bytes of a termination message (Kubernetes, "Determine the Reason for Pod Failure": 4096 of one container)."""

INSPECTOR_VERSION, OLDER_VERSIONS = 3, (2,)
"""Raised when facts depend on more of a model's files than before: new plans then need a new inspection. Results of
older versions stay with the plans that were made from them."""

_CLIPS = (600, 100)
"""Characters of each part of a failure; the first limit that fits is used. A character takes up to 12 bytes in JSON."""


class Cause(StrEnum):
    """Why an inspection failed."""

    GATED = "Gated"
    NOT_FOUND = "NotFound"
    UNREACHABLE = "Unreachable"
    TIMED_OUT = "TimedOut"
    DISK_FULL = "DiskFull"
    DAMAGED = "Damaged"
    """A downloaded file differs from what the hub lists."""
    UNVERIFIED = "Unverified"
    """The image is not signed with the key, or that could not be found out."""
    UNUSABLE = "Unusable"
    """The files exist, but sizing cannot use them."""
    PICKLE = "Pickle"
    """The weights can run code, and nobody allowed that."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed inspection."""

    cause: Cause
    why: NotUnderstood

    @property
    def message(self) -> str:
        """Field, problem and cure in one line."""
        return self.why.message

    @property
    def was_unanswered(self) -> bool:
        """Whether the hub could not be asked, so that the failure says nothing about the model."""
        return self.cause in (Cause.UNREACHABLE, Cause.TIMED_OUT)


InspectionResult: TypeAlias = Entry | Failure


_REASONS: Mapping[Cause, Reason] = {
    Cause.GATED: Reason.MODEL_GATED,
    Cause.NOT_FOUND: Reason.MODEL_NOT_FOUND,
    Cause.UNREACHABLE: Reason.HUB_UNREACHABLE,
    Cause.TIMED_OUT: Reason.INSPECTION_FAILED,
    Cause.DISK_FULL: Reason.DISK_FULL,
    Cause.DAMAGED: Reason.DOWNLOAD_FAILED,
    Cause.UNVERIFIED: Reason.VERIFICATION_FAILED,
    Cause.UNUSABLE: Reason.MODEL_NOT_UNDERSTOOD,
    Cause.PICKLE: Reason.PICKLE_WEIGHTS,
}


def refusal_of(failure: Failure) -> Refusal:
    """The refusal of a spec whose model could not be inspected.

    Examples:
        >>> refusal_of(Failure(Cause.GATED, NotUnderstood("hf://a/b", "is gated.", "Set `HF_TOKEN`."))).cure
        'Set `HF_TOKEN`. It is read again, at least every 10 minutes.'
    """
    why = failure.why
    cure = f"{why.cure} It is read again, at least every 10 minutes."
    return Refusal(_REASONS[failure.cause], "spec.model.source", f"{why.field}: {why.problem}", cure)


def unusable(why: NotUnderstood) -> Failure:
    """The failure of an inspection whose files are not sufficient."""
    return Failure(Cause.PICKLE if isinstance(why, PickleWeights) else Cause.UNUSABLE, why)


def result_text(result: InspectionResult) -> str:
    """One line of JSON of at most `LIMIT` bytes.

    Examples:
        >>> text = result_text(Failure(Cause.GATED, NotUnderstood("hf://a/b", "is gated.", "Set `HF_TOKEN`.")))
        >>> text
        '{"error":{"cause":"Gated","field":"hf://a/b","problem":"is gated.","cure":"Set `HF_TOKEN`."}}'
        >>> parsed_result(text).message
        'hf://a/b: is gated. Set `HF_TOKEN`.'
    """
    if isinstance(result, Failure):
        return next(text for clip in _CLIPS if len(text := _failure(result, clip)) <= LIMIT)
    text = _line(entry_document(result))
    if len(text) <= LIMIT:
        return text
    problem = f"the fields that sizing needs are longer than {LIMIT} bytes."
    return result_text(unusable(NotUnderstood("config.json", problem, "Use a model of the usual form.")))


def parsed_result(text: str) -> InspectionResult | None:
    """Reads the line; None if it is invalid in any way.

    Examples:
        >>> parsed_result("Killed") is None
        True
    """
    try:
        fields = json.loads(text) if len(text) <= LIMIT else None
        return _read(fields) if isinstance(fields, dict) else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _read(fields: dict[str, object]) -> InspectionResult | None:
    error = fields.get("error")
    if isinstance(error, dict):
        why = NotUnderstood(*(str(error[part]) for part in ("field", "problem", "cure")))
        return Failure(Cause(error["cause"]), why)
    entry = entry_of(fields)
    texts = (entry.name, entry.source, entry.commit, entry.weights.origin if entry.weights else "")
    valid = all(isinstance(text, str) for text in texts) and isinstance(entry.config, dict)
    sized = entry.weights is not None and entry.weights.total_bytes > 0 and entry.download_bytes >= 0
    return entry if valid and sized else None


def _failure(failure: Failure, clip: int) -> str:
    parts = {"field": failure.why.field, "problem": failure.why.problem, "cure": failure.why.cure}
    clipped = {name: text[:clip] for name, text in parts.items()}
    return _line({"error": {"cause": failure.cause.value, **clipped}})


def _line(document: dict[str, object]) -> str:
    return json.dumps(document, separators=(",", ":"))
