"""The class of every option and variable of vLLM: safe, managed by the operator, or only with the right to create pods.

Each name stands once: in `flags.py` if it is managed or needs a setting of the operator, otherwise in a table of this
folder, after the version of vLLM. A line of a table is `NAME safe` or `NAME pods REASON`. Lines below it that begin
with a dot are keys of its value that are safe alone. What stands nowhere needs the right.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files

from inference_operator.engines.validation import OptionClasses
from inference_operator.engines.vllm.flags import (
    DANGEROUS_FLAGS,
    DANGEROUS_VARIABLES,
    MANAGED_FLAGS,
    MANAGED_VARIABLES,
    SECRET_FLAGS,
)
from inference_operator.engines.vllm.options import SPELLINGS, VERSION


class Class(StrEnum):
    """Who may set an option or a variable."""

    SAFE = "safe"
    """Everybody who may write the resource."""
    MANAGED = "managed"
    """Nobody; the operator sets it."""
    PODS = "pods"
    """Everybody who may create pods."""


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

LEVELS = ("-O0", "-O1", "-O2", "-O3")
"""Short spellings of `--optimization-level` with their value (vLLM 0.32.0, utils/argparse_utils.py)."""


@dataclass(frozen=True, slots=True)
class Classified:
    """The class of an option or a variable."""

    name: str
    kind: Class
    reason: str = ""
    """Its effect, if it needs the right; the cure, if it is managed."""
    keys: tuple[str, ...] = ()
    """Keys of an option's value that are safe alone, as they follow a dot."""


def classified(table: str) -> Iterator[Classified]:
    r"""The classes in a table.

    Examples:
        >>> for one in classified("--seed safe\n--pooler-config pods json\n  .task\n  .dimensions\n"):
        ...     print(one.name, one.kind, one.reason, one.keys)
        --seed safe  ()
        --pooler-config pods takes JSON, which an admission policy cannot read ('task', 'dimensions')
    """
    lines = [line.split() for line in table.splitlines()]
    for index, (name, *words) in enumerate(lines):
        if not name.startswith("."):
            kind, *reasons = words
            reason = REASONS[reasons[0]] if kind == Class.PODS else ""
            yield Classified(name, Class(kind), reason, tuple(_keys(lines[index + 1 :])))


def _keys(lines: list[list[str]]) -> Iterator[str]:
    for word, *_ in lines:
        if not word.startswith("."):
            return
        yield word[1:]


def _read(kind: str) -> Iterator[Classified]:
    return classified(files(__package__).joinpath(f"{kind}-classes-{VERSION}.txt").read_text(encoding="utf-8"))


def _from(table: Mapping[str, str], kind: Class) -> Iterator[Classified]:
    return (Classified(SPELLINGS.get(name, name), kind, reason) for name, reason in table.items())


SECRET_CURES = {
    flag: f"Set `{variable}` from a Secret in `spec.engine.env`." for flag, variable in SECRET_FLAGS.items()
}
"""Flags whose value is a secret, with what to do instead."""

OPTION_CLASSES: tuple[Classified, ...] = (
    *_from(MANAGED_FLAGS | SECRET_CURES, Class.MANAGED),
    *_from(DANGEROUS_FLAGS, Class.PODS),
    *_read("option"),
)
"""The class of every option."""

VARIABLE_CLASSES: tuple[Classified, ...] = (
    *_from(MANAGED_VARIABLES, Class.MANAGED),
    *_from(DANGEROUS_VARIABLES, Class.PODS),
    *_read("variable"),
)
"""The class of every variable of vLLM, and of those of its libraries that have one."""

VARIABLES = tuple(files(__package__).joinpath(f"variables-{VERSION}.txt").read_text(encoding="utf-8").split())
"""Names of all variables of vLLM; `python -m e2e.vllm_options` writes the table."""


def spellings(option: str) -> tuple[str, ...]:
    """All exact spellings of an option.

    Examples:
        >>> spellings("--enable-expert-parallel")
        ('--enable-expert-parallel', '--no-enable-expert-parallel', '-ep')
    """
    return tuple(sorted(one for one, name in SPELLINGS.items() if name == option))


def key_spellings(one: Classified) -> tuple[str, ...]:
    """All exact spellings of the safe keys of an option's value.

    Examples:
        >>> key_spellings(Classified("--diffusion-config", Class.PODS, keys=("canvas_length",)))
        ('--diffusion-config.canvas_length', '-dc.canvas_length')
    """
    return tuple(f"{spelling}.{key}" for spelling in spellings(one.name) for key in one.keys)


def _of(kind: Class) -> Iterator[str]:
    return (spelling for one in OPTION_CLASSES if one.kind is kind for spelling in spellings(one.name))


def _variables(kind: Class) -> Iterator[str]:
    return (one.name for one in VARIABLE_CLASSES if one.kind is kind)


SECRET_VARIABLES = frozenset(
    {
        *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "VLLM_API_KEY"),
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN"),
        *("S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"),
    }
)
"""Variables whose values are secrets. vLLM shows values of others in errors and logs, and that of
`VLLM_SYSTEM_START_DATE` in the system prompt (0.32.0, entrypoints/openai/parser/harmony_utils.py)."""

CLASSES = OptionClasses(
    safe=frozenset({*_of(Class.SAFE), *LEVELS, *(key for one in OPTION_CLASSES for key in key_spellings(one))}),
    managed=frozenset(_of(Class.MANAGED)),
    safe_variables=frozenset(_variables(Class.SAFE)),
    managed_variables=frozenset(_variables(Class.MANAGED)),
    secret_variables=SECRET_VARIABLES,
)
"""The names for which nobody needs the right to create pods."""
