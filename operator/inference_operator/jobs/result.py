"""The report of a Job's end: one line of JSON that fits into a container's termination message."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.manifest import Manifest
from inference_operator.models.config import NotUnderstood
from inference_operator.sentences import sentences
from inference_operator.views.untrusted_text import one_line

Result = TypeVar("Result")

LIMIT = 4096
"""Bytes of a termination message (Kubernetes, "Determine the Reason for Pod Failure": 4096 of one container)."""

TERMINATION_MESSAGE = "/dev/termination-log"
"""Default path of a container's termination message (Kubernetes, `terminationMessagePath`)."""

MODEL_FIELD = "spec.model.source"

_CLIPS = (600, 100)
"""Characters of each part of a failure; the first limit that fits is used. A character takes up to 12 bytes in JSON."""


class Cause(StrEnum):
    GATED = "Gated"
    NOT_FOUND = "NotFound"
    UNREACHABLE = "Unreachable"
    TIMED_OUT = "TimedOut"
    """It took too long, or it ended without a result."""
    DISK_FULL = "DiskFull"
    DAMAGED = "Damaged"
    """A downloaded file differs from the listing of the hub."""
    UNVERIFIED = "Unverified"
    """The image is not signed with the key, or that could not be found out."""
    UNUSABLE = "Unusable"
    """The files exist, but sizing cannot use them."""
    PICKLE = "Pickle"
    """The weights can run code, and nobody allowed that."""


@dataclass(frozen=True, slots=True)
class Failure:
    cause: Cause
    why: NotUnderstood
    reason: Reason | None = None
    """Why a pod did not run, if that is the cause."""

    @property
    def message(self) -> str:
        return self.why.message

    @property
    def was_unanswered(self) -> bool:
        """Whether the hub could not be asked, so that the failure says nothing about the model."""
        return self.cause in (Cause.UNREACHABLE, Cause.TIMED_OUT)


_REASONS: Mapping[Cause, Reason] = {
    Cause.GATED: Reason.MODEL_GATED,
    Cause.NOT_FOUND: Reason.MODEL_NOT_FOUND,
    Cause.UNREACHABLE: Reason.HUB_UNREACHABLE,
    Cause.DISK_FULL: Reason.DISK_FULL,
    Cause.DAMAGED: Reason.DOWNLOAD_FAILED,
    Cause.UNVERIFIED: Reason.VERIFICATION_FAILED,
    Cause.UNUSABLE: Reason.MODEL_NOT_UNDERSTOOD,
    Cause.PICKLE: Reason.PICKLE_WEIGHTS,
}
"""A Job that timed out has the reason of its task."""


def refusal_of(failure: Failure, *, timed_out: Reason, verb: str, field: str = MODEL_FIELD) -> Refusal:
    """The refusal of a specification whose Job failed; the verb is the participle of what the next attempt does.

    Examples:
        >>> gated = Failure(Cause.GATED, NotUnderstood("hf://a/b", "is gated.", "Set `HF_TOKEN`."))
        >>> refusal_of(gated, timed_out=Reason.INSPECTION_FAILED, verb="read").cure
        'Set `HF_TOKEN`. It is read again, at least every 10 minutes.'
    """
    why = failure.why
    cure = sentences(why.cure, f"It is {verb} again, at least every 10 minutes.")
    reason = failure.reason or _REASONS.get(failure.cause, timed_out)
    return Refusal(reason, field, f"{why.field}: {why.problem}", cure)


def failure_text(failure: Failure) -> str:
    """One line of JSON of at most `LIMIT` bytes."""
    return next(text for clip in _CLIPS if len(text := _clipped(failure, clip)) <= LIMIT)


def parsed(text: str, read: Callable[[Manifest], Result | None]) -> Result | Failure | None:
    """The failure in a termination message, else what `read` makes of its fields; None if it is invalid in any way."""
    try:
        fields = json.loads(text) if len(text) <= LIMIT else None
        if not isinstance(fields, dict):
            return None
        error = fields.get("error")
        return _failure(error) if isinstance(error, dict) else read(fields)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def is_commit(text: str) -> bool:
    """Whether a text can be the commit of a repository, or a digest: it becomes a part of a path in engines.

    Users may write the ConfigMap that has it.

    Examples:
        >>> is_commit("0123abcd"), is_commit("../../other"), is_commit("")
        (True, False, False)
    """
    return re.fullmatch("[0-9A-Za-z]+", text) is not None


def line(document: Manifest) -> str:
    return json.dumps(document, separators=(",", ":"))


def _failure(error: Manifest) -> Failure:
    why = NotUnderstood(*(one_line(error[part]) for part in ("field", "problem", "cure")))
    return Failure(Cause(error["cause"]), why)


def _clipped(failure: Failure, clip: int) -> str:
    parts = {"field": failure.why.field, "problem": failure.why.problem, "cure": failure.why.cure}
    clipped = {name: text[:clip] for name, text in parts.items()}
    return line({"error": {"cause": failure.cause.value, **clipped}})
