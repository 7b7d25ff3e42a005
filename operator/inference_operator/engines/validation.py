"""The options of an engine: which of them users may set."""

from dataclasses import dataclass
from typing import Protocol

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import EngineSpec
from inference_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class OptionClasses:
    """The options and variables of an engine that need no right to create pods. All others need it."""

    safe: frozenset[str]
    """Exact spellings of options, and of single keys of their values, that everybody may set."""
    managed: frozenset[str]
    """Exact spellings of options that the operator refuses to everybody, since it sets them itself."""
    safe_variables: frozenset[str]
    """Names of environment variables that everybody may set."""
    managed_variables: frozenset[str]
    """Names of environment variables that the operator refuses to everybody."""
    secret_variables: frozenset[str] = frozenset()
    """The safe variables that are made for a secret: the engine shows their values nowhere."""


class SpecValidation(Protocol):
    """The checks of a specification by one kind of engine."""

    def check(self, spec: EngineSpec, /, *, image: str, settings: Settings) -> Refusal | None:
        """Why this image's engine cannot run the specification; None if it can."""

    @property
    def unsupported_fields(self) -> frozenset[str]:
        """The fields of `spec.engine` that the engine cannot honour, by their names in a manifest."""

    @property
    def option_classes(self) -> OptionClasses:
        """The options and variables that everybody may set, and those that nobody may."""


def refusal_of_fields(engine: SpecValidation, spec: EngineSpec) -> Refusal | None:
    """The refusal of the first field that is set and that this engine cannot honour; None if it can honour all."""
    stated = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for name in sorted(engine.unsupported_fields & stated.keys()):
        problem = f"This engine does not support the field `{name}`."
        return Refusal(Reason.INVALID_SPEC, f"spec.engine.{name}", problem, "Remove it.")
    return None
