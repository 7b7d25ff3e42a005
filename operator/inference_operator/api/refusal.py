"""The message for a spec that the operator rejects: field, problem and cure of each mistake."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference_operator.api.reasons import Reason

MOST_MISTAKES = 8
"""Mistakes that a message lists. More are counted."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a spec is rejected, and the change that helps."""

    reason: Reason
    field: str
    problem: str
    cure: str
    others: tuple["Refusal", ...] = ()

    @property
    def mistakes(self) -> tuple["Refusal", ...]:
        return (replace(self, others=()), *self.others)

    @property
    def message(self) -> str:
        """Field, problem and cure of each mistake in one line; line breaks in quoted text become spaces."""
        if not self.others:
            return " ".join(f"{self.field}: {self.problem} {self.cure}".split())
        mistakes = enumerate(self.mistakes[:MOST_MISTAKES], start=1)
        shown = [f"({number}) {mistake.message}" for number, mistake in mistakes]
        hidden = len(self.mistakes) - len(shown)
        return " ".join((f"{len(self.mistakes)} mistakes.", *shown, *([f"And {hidden} more."] if hidden else [])))


def all_of(refusals: Sequence[Refusal]) -> Refusal:
    """All mistakes of a specification as one refusal: the first, with the others."""
    first, *others = refusals
    return replace(first, others=tuple(others))
