"""The options of an engine: which of them users may set, and what those of a hand-written command become."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OptionClasses:
    """The options and variables of an engine that need no right to create pods. All others need it."""

    safe: frozenset[str]
    """Exact spellings of options, and of single keys of their values, that everybody may set."""
    managed: frozenset[str]
    """Exact spellings of options that the operator refuses to everybody, since it sets them itself."""
    safe_variables: frozenset[str]
    managed_variables: frozenset[str]
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
    """
    each = tuple(classes)
    options = {option for own in each for option in own.safe | own.managed}
    variables = {name for own in each for name in own.harmless_variables}
    secrets = {name for own in each for name in own.secret_variables}

    def is_of_another(name: str, own: OptionClasses) -> bool:
        return any(other.own_prefix and name.startswith(other.own_prefix) for other in each if other is not own)

    return OptionClasses(
        safe=frozenset(option for option in options if all(own.is_harmless(option) for own in each)),
        managed=frozenset(),
        safe_variables=frozenset(
            name
            for name in variables
            if all(name in own.harmless_variables or is_of_another(name, own) for own in each)
        ),
        managed_variables=frozenset(),
        secret_variables=frozenset(
            name for name in secrets if all(name in own.secret_variables or is_of_another(name, own) for own in each)
        ),
    )


@dataclass(slots=True)
class ImportedArguments:
    model: str = ""
    """Repository or path of the model; empty if no argument names it."""
    fields: dict[str, object] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    """Options that were left out, each with the reason. No value is in it: it could be a secret."""


NUMBER = r"^-[0-9.]+$"
"""A negative number, which is a value. RE2, the engine of CEL's `matches`, and Python read it alike."""
JSON = r"^[\t\n\f\r ]*[\[{]"
"""The begin of a JSON object or list, after what RE2 takes for white space (`\\s`)."""
_NUMBER, _JSON = re.compile(NUMBER.replace("$", r"\Z")), re.compile(JSON)


def unsafe_arguments(args: Sequence[str], classes: OptionClasses) -> tuple[str, ...]:
    return tuple(argument for argument in args if _needs_right(argument, classes))


def _needs_right(argument: str, classes: OptionClasses) -> bool:
    if not argument.startswith("-") or _NUMBER.match(argument):
        return bool(_JSON.match(argument))
    name, _, value = argument.partition("=")
    return not classes.is_harmless(name) or bool(_JSON.match(value))


def unsafe_variables(names: Sequence[str], classes: OptionClasses) -> tuple[str, ...]:
    return tuple(name for name in names if name not in classes.harmless_variables)
