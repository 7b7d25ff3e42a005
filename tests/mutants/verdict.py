"""What became of a mutant."""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["killed", "survived", "equivalent", "timeout", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`unknown` is for a mutant that a fork cannot judge: a fresh process does."""

    outcome: Outcome
    why: str = ""
    """The test that failed, or what else there is to know."""
