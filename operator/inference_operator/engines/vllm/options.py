"""The options of `vllm serve` as its own parser knows them, and which of them an argument means.

The table is what `e2e/vllm_parser/table.py` writes inside the engine's image; a test there compares the two.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.resources import files

VERSION = "0.32.0"
"""The version of vLLM whose options these are."""

_TABLE = files(__package__).joinpath(f"options-{VERSION}.txt").read_text(encoding="utf-8")

SPELLINGS: dict[str, str] = {
    spelling: line.split()[0] for line in _TABLE.splitlines() for spelling in reversed(line.split())
}
"""Every spelling, and the option that it means."""

OPTIONS = tuple(line.split()[0] for line in _TABLE.splitlines())
"""The options by their names."""

_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")
"""What argparse takes for a negative number, so for a value (Python 3.13, Lib/argparse.py)."""

_LONG = 2
"""Characters with which a long option begins: `--`."""


def written_option(argument: str) -> str | None:
    """The option as an argument spells it, without its value; None where the argument is a value.

    Dashes and underscores are the same, what follows a dot is a key inside the option's value, and `-O2` is short for
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


def meant(option: str) -> Sequence[str]:
    """The options that a spelling can mean: one, several where it abbreviates more than one, or none.

    Examples:
        >>> meant("--max-num-se"), meant("-tp"), meant("--no-enforce-eager"), meant("-n2"), meant("--nosuch")
        (['--max-num-seqs'], ['--tensor-parallel-size'], ['--enforce-eager'], ['--nnodes'], [])
        >>> meant("--max-num-s")
        ['--max-num-scheduled-tokens', '--max-num-seqs']
    """
    if option in SPELLINGS:
        return [SPELLINGS[option]]
    found = {SPELLINGS[spelling] for spelling in SPELLINGS if spelling.startswith(option)}
    if not option.startswith("--") and option[:_LONG] in SPELLINGS:
        found.add(SPELLINGS[option[:_LONG]])  # a letter with its value
    return sorted(found)


def nearest(option: str) -> Sequence[str]:
    """The options whose names are most like a misspelt one.

    Examples:
        >>> nearest("--max-model-length")[0]
        '--max-model-len'
    """
    return get_close_matches(option, OPTIONS, n=3, cutoff=0.7)
