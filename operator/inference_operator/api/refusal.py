"""The message for a spec that the operator rejects: field, problem and cure."""

from dataclasses import dataclass

from inference_operator.api.reasons import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a spec is rejected, and the change that helps.

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
        """Field, problem and cure in one line; line breaks in quoted text become spaces."""
        return " ".join(f"{self.field}: {self.problem} {self.cure}".split())
