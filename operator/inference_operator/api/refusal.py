"""Why something cannot be done as asked, in words for its user."""

from dataclasses import dataclass

from inference_operator.api.reasons import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """A decision not to act, with what a user needs to change it.

    Examples:
        >>> Refusal(Reason.INVALID_SPEC, "spec.replicas", "must be a number.", "Write 1.").message
        'spec.replicas: must be a number. Write 1.'
    """

    reason: Reason
    field: str
    problem: str
    cure: str

    @property
    def message(self) -> str:
        """Field, problem and cure in one line, even where what they quote has several."""
        return " ".join(f"{self.field}: {self.problem} {self.cure}".split())
