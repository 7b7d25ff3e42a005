"""Cause and cure of every reason that a condition can have; source of the reference page of reasons.

A block of `explanations.txt` has the reason and its condition, with `engine` if an engine logs it before it exits; then
the cause; then the cure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.text_tables import blocks


@dataclass(frozen=True, slots=True)
class Explanation:
    condition: ConditionType
    cause: str
    cure: str
    of_engine: bool = False


def _explanations() -> Iterator[tuple[Reason, Explanation]]:
    for head, cause, cure in blocks(__package__, "explanations"):
        reason, condition, *engine = head.split()
        yield Reason(reason), Explanation(ConditionType(condition), cause, cure, of_engine=bool(engine))


EXPLANATIONS: Mapping[Reason, Explanation] = dict(_explanations())
ENGINE_ERRORS = frozenset(reason for reason, explanation in EXPLANATIONS.items() if explanation.of_engine)


def with_cure(cause: str, cure: str) -> str:
    """A cause and its cure as two sentences; only the cause if no cure is known."""
    return f"{cause.rstrip('.')}. {cure}" if cure else cause
