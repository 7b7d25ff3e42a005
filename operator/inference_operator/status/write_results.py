"""Result of a write to the API server."""

from dataclasses import dataclass
from typing import TypeAlias

from inference_operator.manifest import Manifest, Ref


@dataclass(frozen=True, slots=True)
class Applied:
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Present:
    """The object exists; its state is not the operator's to read."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object is deleted, or is being deleted."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Conflict:
    """A foreign object has this name."""

    ref: Ref
    holder: str
    left_behind: bool = False
    """Whether it is a child of a former InferenceDeployment of this name, and can be taken over."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An earlier object of this name is still being deleted."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Rejected:
    """The API server, a quota or an admission policy rejects the object."""

    ref: Ref
    message: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The request failed, or its result is unknown. A retry may help."""

    ref: Ref
    cause: str
    retry_after: float = 0.0


WriteResult: TypeAlias = Applied | Present | Deleted | Conflict | Waiting | Rejected | Failed
