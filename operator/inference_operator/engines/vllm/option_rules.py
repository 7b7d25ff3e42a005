"""Who may set each option and variable of vLLM, in words."""

from collections.abc import Iterator, Mapping

from inference_operator.engines.classified import (
    ALLOWED,
    ANYBODY,
    NOBODY,
    POD_CREATORS,
    Class,
    OptionRule,
    rules_of,
)
from inference_operator.engines.vllm.flags import (
    DANGEROUS_FLAGS,
    DANGEROUS_VARIABLES,
    MANAGED_FLAGS,
    MANAGED_VARIABLES,
    REMOVED_FLAGS,
)
from inference_operator.engines.vllm.named_code import CODE_VALUES
from inference_operator.engines.vllm.option_classes import (
    LEVELS,
    OPTION_CLASSES,
    SECRET_CURES,
    VARIABLE_CLASSES,
    spellings,
)


def _rules() -> Iterator[OptionRule]:
    for table in (MANAGED_FLAGS, MANAGED_VARIABLES, SECRET_CURES):
        yield from _named(table, NOBODY)
    for table in (DANGEROUS_FLAGS, DANGEROUS_VARIABLES):
        yield from _named(table, ALLOWED)
    yield from (OptionRule(f"{value.name}=CODE", ALLOWED, value.meaning) for value in CODE_VALUES)
    for option in OPTION_CLASSES:
        if option.kind is Class.SAFE:
            yield OptionRule(", ".join(spellings(option.name)), ANYBODY)
        elif option.kind is Class.PODS and option.name not in DANGEROUS_FLAGS:
            yield OptionRule(option.name, POD_CREATORS, option.reason)
        if option.keys:
            keys = ", ".join(f".{key}" for key in option.keys)
            yield OptionRule(f"{option.name}.KEY", ANYBODY, f"single keys: {keys}")
    yield OptionRule(", ".join(LEVELS), ANYBODY)
    yield from rules_of(
        one for one in VARIABLE_CLASSES if one.kind is not Class.MANAGED and one.name not in DANGEROUS_VARIABLES
    )
    yield from _named(REMOVED_FLAGS, f"{NOBODY}: of earlier versions")


def _named(table: Mapping[str, str], who: str) -> Iterator[OptionRule]:
    return (OptionRule(name, who, note) for name, note in table.items())


RULES = tuple(_rules())
