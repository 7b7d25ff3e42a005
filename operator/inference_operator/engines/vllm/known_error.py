"""How one of vLLM's errors is known: its wording, and what it means to a user."""

import re
from dataclasses import dataclass

from inference_operator.api.reasons import Reason


@dataclass(frozen=True, slots=True)
class KnownError:
    """One error: how vLLM words it, and what it means to a user, with the groups of the wording."""

    reason: Reason
    wording: re.Pattern[str]
    cause: str


def known(reason: Reason, wording: str, cause: str) -> KnownError:
    """An error by the regular expression of its wording."""
    return KnownError(reason, re.compile(wording), cause)
