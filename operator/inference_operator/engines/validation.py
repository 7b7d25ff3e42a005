"""The options of an engine: which of them users may set."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
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
    unsafe: frozenset[str] | None = None
    """Exact spellings of options that need the right, of an engine that refuses all others to everybody. None: the
    engine takes options that are not listed."""
    own_prefix: str = ""
    """Begins names of variables that no other engine reads; empty if there is no such beginning."""

    def is_harmless(self, option: str) -> bool:
        """Whether nobody needs the right for this spelling: everybody may set it, or nobody."""
        return option in self.safe | self.managed or (self.unsafe is not None and option not in self.unsafe)

    @property
    def harmless_variables(self) -> frozenset[str]:
        """The variables for which nobody needs the right: everybody may set them, or nobody."""
        return self.safe_variables | self.managed_variables


def joint_classes(classes: Iterable[OptionClasses]) -> OptionClasses:
    """The classes that hold for all of several engines: a name needs no right only if it needs none for each of them.

    A variable that only one of them reads is judged by that one.

    Examples:
        >>> open_ended = OptionClasses(frozenset({"--a", "--b"}), frozenset(), frozenset({"X", "Y"}), frozenset())
        >>> closed = OptionClasses(frozenset(), frozenset(), frozenset({"X"}), frozenset(), unsafe=frozenset({"--b"}))
        >>> found = joint_classes([open_ended, closed])
        >>> sorted(found.safe), sorted(found.safe_variables)
        (['--a'], ['X'])
    """
    each = tuple(classes)
    options = {option for one in each for option in one.safe | one.managed}
    variables = {name for one in each for name in one.harmless_variables}
    secrets = {name for one in each for name in one.secret_variables}

    def is_of_another(name: str, one: OptionClasses) -> bool:
        return any(other.own_prefix and name.startswith(other.own_prefix) for other in each if other is not one)

    return OptionClasses(
        safe=frozenset(option for option in options if all(one.is_harmless(option) for one in each)),
        managed=frozenset(),
        safe_variables=frozenset(
            name
            for name in variables
            if all(name in one.harmless_variables or is_of_another(name, one) for one in each)
        ),
        managed_variables=frozenset(),
        secret_variables=frozenset(
            name for name in secrets if all(name in one.secret_variables or is_of_another(name, one) for one in each)
        ),
    )


class SpecValidation(Protocol):
    """The checks of a specification by one kind of engine."""

    def check(self, spec: EngineSpec, /, *, image: str, settings: Settings) -> Refusal | None:
        """Why this image's engine cannot run the specification; None if it can."""

    @property
    def unsupported_fields(self) -> frozenset[str]:
        """The fields of `spec.engine` that the engine cannot honour, by their names in a manifest."""

    @property
    def devices(self) -> frozenset[Device]:
        """The devices on which the engine runs."""

    @property
    def divides_models(self) -> bool:
        """Whether the engine divides a model over several GPUs."""

    @property
    def runs_over_nodes(self) -> bool:
        """Whether one engine can have several nodes, with a pod on each."""

    def check_member(self, spec: EngineSpec, /) -> Refusal | None:
        """Why an engine over several nodes cannot run what one on a single node can; None if it can."""

    def check_data_parallel(self, spec: EngineSpec, /) -> Refusal | None:
        """Why an engine of this specification has no data parallel ranks; None if it can have several."""

    @property
    def option_classes(self) -> OptionClasses:
        """The options and variables that everybody may set, and those that nobody may."""


NO_DATA_PARALLEL = Refusal(
    Reason.INVALID_PARALLEL_SIZE,
    "spec.parallelism.data",
    "This engine has no data parallel ranks.",
    "Remove it, or set `spec.engine.kind: VLLM`.",
)
"""The refusal by engines that the operator runs with one data parallel rank."""


def refusal_of_fields(engine: SpecValidation, spec: EngineSpec) -> Refusal | None:
    """The refusal of the first field that is set and that this engine cannot honour; None if it can honour all."""
    stated = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for name in sorted(engine.unsupported_fields & stated.keys()):
        problem = f"This engine does not support the field `{name}`."
        return Refusal(Reason.INVALID_SPEC, f"spec.engine.{name}", problem, "Remove it.")
    return None
