"""What became of a change: what the API server answered, or that it did not."""

from dataclasses import dataclass
from typing import TypeAlias

from inference_operator.manifest import Manifest, Ref


@dataclass(frozen=True, slots=True)
class Applied:
    """The object as the API server has it now."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object is gone, or going."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Conflict:
    """Somebody else's object has the name."""

    ref: Ref
    holder: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """An object of that name is still being deleted."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Rejected:
    """The API server or an admission policy refuses the object."""

    ref: Ref
    message: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The request was not carried out, or nobody knows whether it was; asking again may help."""

    ref: Ref
    cause: str
    retry_after: float = 0.0
    """Seconds for which the API server does not want to be asked again."""


Answer: TypeAlias = Applied | Deleted | Conflict | Waiting | Rejected | Failed
