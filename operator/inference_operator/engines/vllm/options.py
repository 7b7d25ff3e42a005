"""The options of `vllm serve`, and their values as its parser reads them: of several, the last one counts.

`e2e/vllm_parser/table.py` writes the table inside the engine's image. A test there compares the two.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import takewhile

from inference_operator.text_tables import rows

VERSION = "0.32.0"
_ROWS = rows(__package__, f"options-{VERSION}.txt")
SPELLINGS: dict[str, str] = {spelling: row[0] for row in _ROWS for spelling in reversed(row)}
OPTIONS = tuple(row[0] for row in _ROWS)
_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")
"""A negative number, which argparse treats as a value (Python 3.13, Lib/argparse.py)."""
_LONG = 2
"""Characters of `--`, with which a long option begins."""


def written_option(argument: str) -> str | None:
    """The option in an argument, as it is spelled and without its value; None if the argument is a value.

    Dashes and underscores are equal. A dot begins a key inside the option's value. `-O2` is short for
    `--optimization-level 2` (vLLM 0.32.0, vllm/utils/argparse_utils.py).

    Examples:
        >>> written_option("--max_num_seqs=8"), written_option("--compilation_config.mode_x=3"), written_option("-O2")
        ('--max-num-seqs', '--compilation-config', '--optimization-level')
        >>> [written_option(value) for value in ("8", "-1", "-", "--", "")]
        [None, None, None, None, None]
    """
    if not argument.startswith("-") or not argument.strip("-") or _NUMBER.match(argument):
        return None
    if argument.startswith("-O"):
        return "--optimization-level"
    key = argument.partition("=")[0].partition(".")[0]
    if " " in key:
        return None
    return key.replace("_", "-") if key.startswith("--") else key


def resolve_option(option: str) -> Sequence[str]:
    """The options to which a spelling can resolve: one, none, or several if it abbreviates several.

    Examples:
        >>> [resolve_option(text) for text in ("--max-num-se", "-tp", "--no-enforce-eager", "-n2", "--nosuch")]
        [['--max-num-seqs'], ['--tensor-parallel-size'], ['--enforce-eager'], ['--nnodes'], []]
        >>> resolve_option("--max-num-s")
        ['--max-num-scheduled-tokens', '--max-num-seqs']
    """
    if option in SPELLINGS:
        return [SPELLINGS[option]]
    names = {SPELLINGS[spelling] for spelling in SPELLINGS if spelling.startswith(option)}
    if not option.startswith("--") and option[:_LONG] in SPELLINGS:
        names.add(SPELLINGS[option[:_LONG]])  # a short option directly followed by its value
    return sorted(names)


def nearest(option: str) -> Sequence[str]:
    """The options with the names most similar to a misspelt one, at most three.

    Examples:
        >>> nearest("--max-model-length")[0]
        '--max-model-len'
    """
    return get_close_matches(option, OPTIONS, n=3, cutoff=0.7)


MAX_DIGITS = 9
"""Of a number of tokens, adapters or ranks."""


@dataclass(frozen=True, slots=True)
class GivenOption:
    index: int
    spelling: str
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


def is_given(args: Sequence[str], option: str) -> bool:
    return any(given_options(args, option))


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
        parsed = parsed_json(given.value or "")
        if given.key:
            config[given.key] = given.value if parsed is None else parsed
        elif isinstance(parsed, dict):
            config = {str(key).replace("-", "_"): value for key, value in parsed.items()}
    return config


def parsed_json(text: str) -> object:
    try:
        return json.loads(text) if len(text) <= MAX_CHARACTERS else None
    except (ValueError, RecursionError):
        return None
