"""A chain of rules, which reads as the list of what is checked, in its order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Given = TypeVar("Given")
Verdict = TypeVar("Verdict")


@dataclass(frozen=True, slots=True)
class Chain(Generic[Given, Verdict]):
    """Rules about one thing. The first one that answers decides, and a rule that does not apply returns None.

    Examples:
        >>> size: Chain[int, str] = Chain((lambda n: None if n else "none",), otherwise=lambda n: f"{n} of them")
        >>> size(0), size(3)
        ('none', '3 of them')
    """

    rules: tuple[Callable[[Given], Verdict | None], ...]
    otherwise: Callable[[Given], Verdict]
    """The rule that applies where no other one does."""

    def __call__(self, given: Given) -> Verdict:
        for rule in self.rules:
            verdict = rule(given)
            if verdict is not None:
                return verdict
        return self.otherwise(given)
