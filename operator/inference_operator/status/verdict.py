"""Verdict: status, reason and message of one condition."""

from dataclasses import dataclass
from typing import Literal

from inference_operator.api.reasons import Reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status of a condition and why."""

    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str
