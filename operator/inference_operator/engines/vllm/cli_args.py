"""Values of options in `spec.engine.args`, read as vLLM's own parser reads them: of several, the last one counts."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from inference_operator.engines.vllm.options import resolve_option, written_option

MAX_DIGITS = 9
"""Of a number of tokens, adapters or ranks."""


@dataclass(frozen=True, slots=True)
class GivenOption:
    index: int
    spelling: str
    """The option as it is written, without its value."""
    key: str
    """Key inside the option's value, where one follows a dot; else empty."""
    value: str | None


def given_options(args: Sequence[str], option: str) -> Iterator[GivenOption]:
    """Every occurrence of an option.

    Examples:
        >>> args = ["-sc.model=a", "--speculative_config", "{}"]
        >>> [(given.key, given.value) for given in given_options(args, "--speculative-config")]
        [('model', 'a'), ('', '{}')]
    """
    for index, argument in enumerate(args):
        spelling = written_option(argument)
        if spelling and list(resolve_option(spelling)) == [option]:
            name, equals, inline = argument.partition("=")
            value = inline if equals else next(iter(args[index + 1 : index + 2]), None)
            yield GivenOption(index, spelling, name.partition(".")[2].replace("-", "_"), value)


def value_of(args: Sequence[str], option: str) -> str | None:
    """The value of an option; None if there is none.

    Examples:
        >>> value_of(["--revision", "v1", "--revis=v2"], "--revision"), value_of(["--revision"], "--revision")
        ('v2', None)
    """
    return next((given.value for given in reversed(list(given_options(args, option)))), None)


def values_of(args: Sequence[str], given: GivenOption) -> Sequence[str]:
    """All values of one occurrence of an option that takes several: the one after `=`, or all up to the next option.

    Examples:
        >>> args = ["--lora-modules", "a=/a", "b=/b", "--seed", "1", "--lora-modules=c=/c"]
        >>> [list(values_of(args, given)) for given in given_options(args, "--lora-modules")]
        [['a=/a', 'b=/b'], ['c=/c']]
    """
    if "=" in args[given.index]:
        return [given.value or ""]
    return list(takewhile(lambda argument: written_option(argument) is None, args[given.index + 1 :]))


def int_value(args: Sequence[str], option: str) -> int | None:
    """The value of an option as a whole number of 0 or more; None if it is none, which vLLM refuses."""
    text = value_of(args, option) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None


def is_on(args: Sequence[str], option: str) -> bool:
    """Whether the arguments switch a boolean option on.

    Examples:
        >>> is_on(["--enable-lora"], "--enable-lora"), is_on(["--enable-lora", "--no-enable-lora"], "--enable-lora")
        (True, False)
    """
    spellings = [given.spelling for given in given_options(args, option)]
    return bool(spellings) and not spellings[-1].startswith("--no-")


MAX_CHARACTERS = 65_536
"""Length of a configuration in an argument. A longer one is ignored."""


def configuration(args: Sequence[str], option: str) -> dict[str, object]:
    """The keys of an option that takes a JSON object, or single keys after a dot.

    Examples:
        >>> given = ['--eplb-config={"num-redundant-experts": 8}', "--eplb-config.window_size=3"]
        >>> configuration(given, "--eplb-config")
        {'num_redundant_experts': 8, 'window_size': 3}
    """
    config: dict[str, object] = {}
    for given in given_options(args, option):
        parsed = _parsed(given.value or "")
        if given.key:
            config[given.key] = given.value if parsed is None else parsed
        elif isinstance(parsed, dict):
            config = {str(key).replace("-", "_"): value for key, value in parsed.items()}
    return config


def _parsed(text: str) -> object:
    try:
        return json.loads(text) if len(text) <= MAX_CHARACTERS else None
    except (ValueError, RecursionError):
        return None
