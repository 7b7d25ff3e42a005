"""What the reference page says of a metric."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Description:
    """A metric, for the reference page."""

    name: str
    type: str
    labels: Sequence[str]
    text: str
