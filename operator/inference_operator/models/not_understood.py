"""Why a model's files say too little, in words for its user."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """A field or file that sizing cannot do without.

    Examples:
        >>> NotUnderstood("config.json.vocab_size", "is 0.", "Give a config.").message
        'config.json.vocab_size: is 0. Give a config.'
    """

    field: str
    problem: str
    cure: str

    @property
    def message(self) -> str:
        """Field, problem and cure in one line."""
        return f"{self.field}: {self.problem} {self.cure}"
