"""What the API server answered to a change: expected answers, which are no faults."""

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


Answer: TypeAlias = Applied | Deleted | Conflict | Waiting | Rejected
