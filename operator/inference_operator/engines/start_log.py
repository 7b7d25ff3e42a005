"""The log of an engine's start: the phase that it shows, and the cause of an end.

A table of errors has blocks of three kinds; a line `# ...` is the source of a message:

- a line each for the reason, the pattern, and the sentence of the status
- `NAME = PATTERN`: what `<NAME>` stands for in patterns below; `<COUNT>` and `<DECIMAL>` are known
- `[NAME]`: a table of `engines/` that engines share
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from inference_operator.api.reasons import Reason
from inference_operator.text_tables import blocks


@dataclass(frozen=True, slots=True)
class Diagnosis:
    reason: Reason
    cause: str
    """One line with the engine's figures and what to do."""


class Phase(Enum):
    SETTING_UP = auto()
    """The processes run and have read their configuration."""
    CONNECTING = auto()
    DOWNLOADING = auto()
    LOADING = auto()
    COMPILING = auto()
    WARMING_UP = auto()
    """The KV cache is allocated, and the engine makes warm-up runs."""
    CAPTURING = auto()


def phases_of(package: str) -> Mapping[Phase, re.Pattern[str]]:
    """The phases of an engine, from its table: blocks of a phase's name and the messages with which it begins."""
    return {Phase[name]: re.compile("|".join(texts), re.MULTILINE) for name, *texts in blocks(package, "phases")}


def latest_phase(log: str, messages: Mapping[Phase, re.Pattern[str]]) -> Phase | None:
    return next((message for message in reversed(tuple(messages)) if messages[message].search(log)), None)


@dataclass(frozen=True, slots=True)
class LoadProgress:
    percent: int
    """In whole tens below 100."""
    minutes_left: int | None = None
    """Until all are loaded, at the speed so far; None if the log does not tell."""


def loaded_part(log: str, message: re.Pattern[str]) -> LoadProgress | None:
    r"""How much of the weights is loaded, by the latest message; None before the first tenth.

    The groups of the pattern are the percentage, and the time that is left as tqdm writes it, if the message tells it.

    Examples:
        >>> shards = re.compile(r"(\d+)% Completed[^<]*(?:<([\d:]+))?")
        >>> loaded_part("57% Completed | 4/7 [02:07<01:35, 31.8s/it]", shards)
        LoadProgress(percent=50, minutes_left=2)
        >>> loaded_part("0% Completed | 0/1 [00:00<?, ?it/s]", shards)
    """
    matches = message.findall(log)
    if not matches:
        return None
    percent, left = matches[-1] if isinstance(matches[-1], tuple) else (matches[-1], "")
    tens = int(percent) // 10 * 10
    return LoadProgress(tens, max(1, round(_seconds(left) / 60)) if left else None) if tens else None


def _seconds(clock: str) -> int:
    seconds = 0
    for part in clock.split(":"):
        seconds = 60 * seconds + int(part or 0)
    return seconds


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


def known_errors(package: str, name: str) -> Sequence[KnownError]:
    errors: list[KnownError] = []
    names = {"COUNT": COUNT, "DECIMAL": DECIMAL}

    def pattern_of(name: re.Match[str]) -> str:
        return names[name[1]]

    for block in blocks(package, name):
        match block:
            case [reason, wording, cause]:
                errors.append(KnownError(Reason(reason), re.compile(_NAME.sub(pattern_of, wording)), cause))
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
        >>> full = KnownError(Reason.INSUFFICIENT_DISK, re.compile(r"for (?P<gib>\d+) GiB"), "{gib} GiB lack")
        >>> diagnosis_of("no room for 3 GiB", [full]).cause
        '3 GiB lack'
    """
    for error in errors:
        if match := error.wording.search(text):
            parts = {name: " ".join((part or "").split())[:_MAX_QUOTED] for name, part in match.groupdict().items()}
            return Diagnosis(error.reason, error.cause.format(**parts))
    return None
