"""The arguments and variables of an engine for which a user needs the right to create pods.

An admission policy decides by the same rule in CEL, which cannot read JSON and knows no abbreviations. So it compares
exact spellings, and a value that begins like JSON needs the right.
"""

import re
from collections.abc import Sequence

from inference_operator.engines.options import OptionClasses

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
