"""The class of an option or a variable: safe, managed by the operator, or only with the right to create pods.

Each engine has tables of its own. A line of a table is `NAME safe`, `NAME managed CURE` or `NAME pods REASON`, and
`counted` or `uncounted` after that for an option that changes memory. Lines below it that begin with a dot are keys of
its value that are safe alone. What stands in no table needs the right.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

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
"""Those of them whose values are secrets."""
