"""The options of an engine: which of them users may set, and what those of a hand-written command become.

A table of an engine has lines `NAME safe`, `NAME managed CURE` or `NAME pods REASON`, with `counted` or `uncounted` at
the end for an option that changes memory. Lines below it that begin with a dot are keys of its value that are safe
alone. What stands in no table needs the right to create pods.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.environment import NO_FIELD
from inference_operator.text_tables import text_of


class Class(StrEnum):
    SAFE = "safe"
    MANAGED = "managed"
    PODS = "pods"


REASONS: dict[str, str] = {
    "code": "loads code, or names a module",
    "controls": "lets requests or other web sites control the engine",
    "file": "names a file, which the engine reads or writes",
    "hosts": "reaches other hosts",
    "json": "takes JSON, which an admission policy cannot read",
    "port": "opens a port",
    "repository": "loads another repository or path beside the model",
    "shows": "shows or logs what users send",
}
"""The effect of an option or variable of the class `pods`, by the word in the tables."""


class Memory(StrEnum):
    NONE = ""
    """None, or less than sizing is precise."""
    COUNTED = "counted"
    UNCOUNTED = "uncounted"


@dataclass(frozen=True, slots=True)
class Classified:
    name: str
    kind: Class
    reason: str = ""
    """Its effect, if it needs the right; the cure, if it is managed."""
    memory: Memory = Memory.NONE
    keys: tuple[str, ...] = ()
    """Keys of an option's value that are safe alone, as they follow a dot."""


ANYBODY = "whoever may write the resource"
POD_CREATORS = "who may create pods"
ALLOWED = "who may create pods, if the administrator allows it by name"
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class OptionRule:
    name: str
    """With its other spellings behind commas."""
    who: str
    note: str = ""


def rules_of(classes: Iterable[Classified]) -> Iterator[OptionRule]:
    words = {Class.SAFE: ANYBODY, Class.PODS: POD_CREATORS, Class.MANAGED: NOBODY}
    return (OptionRule(option.name, words[option.kind], option.reason) for option in classes)


def classified(table: str) -> Iterator[Classified]:
    lines = [line.split() for line in table.splitlines()]
    for index, (name, *words) in enumerate(lines):
        if not name.startswith("."):
            kind, *more = words
            cure = " ".join(more) or NO_FIELD if kind == Class.MANAGED else ""
            reason = REASONS[more[0]] if kind == Class.PODS else cure
            memory = Memory(more[-1]) if more and more[-1] in set(Memory) else Memory.NONE
            yield Classified(name, Class(kind), reason, memory, tuple(_keys(lines[index + 1 :])))


def _keys(lines: list[list[str]]) -> Iterator[str]:
    for word, *_ in lines:
        if not word.startswith("."):
            return
        yield word[1:]


LIBRARY_VARIABLES = tuple(classified(text_of(__package__, "library-variables.txt")))
"""The variables of libraries that engines share: PyTorch, CUDA, NCCL, Hugging Face, and those of the C library."""

LIBRARY_SECRETS = frozenset(
    {
        *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN"),
        *("S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"),
    }
)


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


@dataclass(frozen=True, slots=True)
class ClosedOptions:
    """The options of an engine that refuses all options but those of its table.

    1. An option is written with its long name, and a value behind `=`. So each argument can be judged alone, whatever
       abbreviations and pairs of arguments the engine's own parser takes.
    2. An option that the operator manages is refused with the field that stands for it, if there is one.
    3. A flag takes no value, and any other needs one. A parser would take the next argument for a missing value.
    """

    command: str
    others: str
    """What to write instead of an option that is not in the table, in a sentence."""
    by_name: Mapping[str, Classified]
    flags: frozenset[str] = frozenset()

    @classmethod
    def of(cls, package: str, version: str, *, command: str, others: str, flags: Iterable[str] = ()) -> "ClosedOptions":
        options = classified(text_of(package, f"option-classes-{version}.txt"))
        return cls(command, others, {option.name: option for option in options}, frozenset(flags))

    def refusal(self, args: Sequence[str]) -> Refusal | None:
        refusals = (self._refusal(f"spec.engine.args[{index}]", argument) for index, argument in enumerate(args))
        return next((refusal for refusal in refusals if refusal), None)

    def _refusal(self, field: str, argument: str) -> Refusal | None:
        name, equals, _ = argument.partition("=")
        option = self.by_name.get(name)
        if option is None:
            problem = f"`{self.command}` takes no such option here."
            return Refusal(Reason.UNKNOWN_ARGUMENT, field, problem, self.others)
        if option.kind is Class.MANAGED:
            return Refusal(Reason.MANAGED_ARGUMENT, field, f"`{name}` is managed by the operator.", option.reason)
        if equals and name in self.flags:
            return Refusal(Reason.INVALID_SPEC, field, f"`{name}` takes no value.", f"Write `{name}`.")
        if not equals and name not in self.flags:
            return Refusal(Reason.INVALID_SPEC, field, f"`{name}` has no value.", f"Write `{name}=VALUE`.")
        return None

    def classes(self, managed_variables: Iterable[str], *, own_prefix: str = "") -> OptionClasses:
        """The names for which nobody needs the right to create pods; variables are those of the shared libraries.

        Args:
            managed_variables: names of the variables that the operator refuses to everybody.
            own_prefix: begins names of variables that no other engine reads.
        """
        return OptionClasses(
            safe=self._named(Class.SAFE),
            managed=self._named(Class.MANAGED),
            safe_variables=frozenset(entry.name for entry in LIBRARY_VARIABLES if entry.kind is Class.SAFE),
            managed_variables=frozenset(managed_variables),
            secret_variables=LIBRARY_SECRETS,
            unsafe=self._named(Class.PODS),
            own_prefix=own_prefix,
        )

    def _named(self, kind: Class) -> frozenset[str]:
        return frozenset(name for name, option in self.by_name.items() if option.kind is kind)
