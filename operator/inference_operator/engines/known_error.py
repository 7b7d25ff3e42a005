"""One known error of an engine: the pattern of its message, and the cause that status shows for it.

A table of errors has blocks of three kinds; a line `# ...` is the source of a message:

- a line each for the reason, the pattern, and the sentence of the status
- `NAME = PATTERN`: what `<NAME>` stands for in patterns below; `<COUNT>` and `<DECIMAL>` are known
- `[NAME]`: a table here that engines share
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.reasons import Reason
from inference_operator.engines.start_log import Diagnosis
from inference_operator.text_tables import blocks

COUNT, DECIMAL = r"\d{1,15}(?!\d)", r"\d{1,9}(?:\.\d{1,9})?"
"""Patterns of numbers in messages, of at most the digits that a count or a size can have. Longer ones are no figures of
an engine, and Python refuses to read those of thousands of digits."""
_NAME = re.compile(r"<([A-Z_]+)>")
_MAX_QUOTED = 200
"""Characters of a quoted part. They are enough to recognise the error."""


@dataclass(frozen=True, slots=True)
class KnownError:
    reason: Reason
    wording: re.Pattern[str]
    cause: str
    """The sentence of the status. Names in braces are groups of the pattern: figures and names of the engine's own, in
    a form that no value of an argument or a variable has by chance."""


def known_error(reason: Reason, wording: str, cause: str) -> KnownError:
    return KnownError(reason, re.compile(wording), cause)


def known_errors(package: str, name: str) -> Sequence[KnownError]:
    errors: list[KnownError] = []
    names = {"COUNT": COUNT, "DECIMAL": DECIMAL}

    def pattern_of(name: re.Match[str]) -> str:
        return names[name[1]]

    for block in blocks(package, name):
        match block:
            case [reason, wording, cause]:
                errors.append(known_error(Reason(reason), _NAME.sub(pattern_of, wording), cause))
            case [line] if line.startswith("["):
                errors.extend(known_errors(__package__, line.strip("[]")))
            case [line]:
                defined, _, pattern = line.partition(" = ")
                names[defined] = _NAME.sub(pattern_of, pattern)
            case _:
                raise ValueError(f"{name}: {block}")
    return errors


def diagnosis_of(text: str, errors: Sequence[KnownError]) -> Diagnosis | None:
    r"""The first error whose pattern is in the text, with the parts that it names; None if there is none.

    Examples:
        >>> full = known_error(Reason.INSUFFICIENT_DISK, r"for (?P<gib>\d+) GiB", "{gib} GiB lack")
        >>> diagnosis_of("no room for 3 GiB", [full]).cause
        '3 GiB lack'
    """
    for error in errors:
        if match := error.wording.search(text):
            parts = {name: " ".join((part or "").split())[:_MAX_QUOTED] for name, part in match.groupdict().items()}
            return Diagnosis(error.reason, error.cause.format(**parts))
    return None
