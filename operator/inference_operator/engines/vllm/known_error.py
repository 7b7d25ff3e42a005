"""One known error of vLLM: the pattern of its message, and the cause that status shows for it."""

import re
from dataclasses import dataclass

from inference_operator.api.reasons import Reason


@dataclass(frozen=True, slots=True)
class KnownError:
    """An error message of vLLM and its meaning."""

    reason: Reason
    wording: re.Pattern[str]
    cause: str
    """The sentence of the status. Names in braces are groups of the pattern: figures and names of the engine's own, in
    a form that no value of an argument or a variable has by chance."""


def known_error(reason: Reason, wording: str, cause: str) -> KnownError:
    """A known error, from the regular expression of its message."""
    return KnownError(reason, re.compile(wording), cause)
