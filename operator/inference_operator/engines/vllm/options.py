"""The options of `vllm serve`, and how its parser resolves a spelling to an option.

`e2e/vllm_parser/table.py` writes the table inside the engine's image. A test there compares the two.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches

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
