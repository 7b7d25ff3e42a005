"""The log of an engine's start: the phase that it shows, and the cause of an end."""

import re
from collections.abc import Mapping
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
