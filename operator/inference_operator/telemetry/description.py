"""Metrics that a text table describes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference_operator.text_tables import blocks


@dataclass(frozen=True, slots=True)
class Description:
    name: str
    type: str
    labels: Sequence[str]
    text: str


def descriptions(table: str, *labels: str, **enumerations: str) -> Mapping[str, Description]:
    """The metrics of a table by name, with these labels before those that it says."""
    found = {}
    for head, *text in blocks(__package__, table):
        kind, name, *others = head.split()
        found[name] = Description(name, kind, (*labels, *others), " ".join(text).format(**enumerations))
    return found
