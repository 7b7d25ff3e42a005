"""The class of every option and variable of vLLM, and who may set each, in words.

Each name stands once: in `flags.txt` if it is managed or needs a setting of the operator, otherwise in a table of this
folder, after the version of vLLM, or in that of the libraries (`engines/options.py`).
"""

from collections.abc import Iterator, Mapping

from inference_operator.engines.options import (
    ALLOWED,
    ANYBODY,
    LIBRARY_SECRETS,
    LIBRARY_VARIABLES,
    NOBODY,
    POD_CREATORS,
    Class,
    Classified,
    OptionClasses,
    OptionRule,
    classified,
    rules_of,
)
from inference_operator.engines.vllm import flags
from inference_operator.engines.vllm.named_code import CODE_VALUES
from inference_operator.engines.vllm.options import SPELLINGS, VERSION
from inference_operator.text_tables import text_of

LEVELS = ("-O0", "-O1", "-O2", "-O3")
"""Short spellings of `--optimization-level` with their value (vLLM 0.32.0, utils/argparse_utils.py)."""


def _read(kind: str) -> Iterator[Classified]:
    return classified(text_of(__package__, f"{kind}-classes-{VERSION}.txt"))


def _from(table: Mapping[str, str], kind: Class) -> Iterator[Classified]:
    return (Classified(SPELLINGS.get(name, name), kind, reason) for name, reason in table.items())


SECRET_CURES = {
    flag: f"Set `{variable}` from a Secret in `spec.engine.env`." for flag, variable in flags.SECRET_FLAGS.items()
}

OPTION_CLASSES: tuple[Classified, ...] = (
    *_from(flags.MANAGED_FLAGS | SECRET_CURES, Class.MANAGED),
    *_from(flags.DANGEROUS_FLAGS, Class.PODS),
    *_read("option"),
)

VARIABLE_CLASSES: tuple[Classified, ...] = (
    *_from(flags.MANAGED_VARIABLES, Class.MANAGED),
    *_from(flags.DANGEROUS_VARIABLES, Class.PODS),
    *_read("variable"),
    *LIBRARY_VARIABLES,
)
"""The class of every variable of vLLM, and of those of its libraries that have one."""


def spellings(option: str) -> tuple[str, ...]:
    return tuple(sorted(spelling for spelling, name in SPELLINGS.items() if name == option))


def key_spellings(option: Classified) -> tuple[str, ...]:
    return tuple(f"{spelling}.{key}" for spelling in spellings(option.name) for key in option.keys)


def _of(kind: Class) -> Iterator[str]:
    return (spelling for option in OPTION_CLASSES if option.kind is kind for spelling in spellings(option.name))


def _variables(kind: Class) -> Iterator[str]:
    return (variable.name for variable in VARIABLE_CLASSES if variable.kind is kind)


SECRET_VARIABLES = LIBRARY_SECRETS | {"VLLM_API_KEY"}
"""Variables whose values are secrets. vLLM shows values of others in errors and logs, and that of
`VLLM_SYSTEM_START_DATE` in the system prompt (0.32.0, entrypoints/openai/parser/harmony_utils.py)."""

CLASSES = OptionClasses(
    safe=frozenset({*_of(Class.SAFE), *LEVELS, *(key for option in OPTION_CLASSES for key in key_spellings(option))}),
    managed=frozenset(_of(Class.MANAGED)),
    safe_variables=frozenset(_variables(Class.SAFE)),
    managed_variables=frozenset(_variables(Class.MANAGED)),
    secret_variables=SECRET_VARIABLES,
    own_prefix="VLLM_",
)


def _rules() -> Iterator[OptionRule]:
    for table in (flags.MANAGED_FLAGS, flags.MANAGED_VARIABLES, SECRET_CURES):
        yield from _named(table, NOBODY)
    for table in (flags.DANGEROUS_FLAGS, flags.DANGEROUS_VARIABLES):
        yield from _named(table, ALLOWED)
    yield from (OptionRule(f"{value.name}=CODE", ALLOWED, value.meaning) for value in CODE_VALUES)
    for option in OPTION_CLASSES:
        if option.kind is Class.SAFE:
            yield OptionRule(", ".join(spellings(option.name)), ANYBODY)
        elif option.kind is Class.PODS and option.name not in flags.DANGEROUS_FLAGS:
            yield OptionRule(option.name, POD_CREATORS, option.reason)
        if option.keys:
            keys = ", ".join(f".{key}" for key in option.keys)
            yield OptionRule(f"{option.name}.KEY", ANYBODY, f"single keys: {keys}")
    yield OptionRule(", ".join(LEVELS), ANYBODY)
    yield from rules_of(
        one for one in VARIABLE_CLASSES if one.kind is not Class.MANAGED and one.name not in flags.DANGEROUS_VARIABLES
    )
    yield from _named(flags.REMOVED_FLAGS, f"{NOBODY}: of earlier versions")


def _named(table: Mapping[str, str], who: str) -> Iterator[OptionRule]:
    return (OptionRule(name, who, note) for name, note in table.items())


RULES = tuple(_rules())
