"""The log of an engine's start: the phase that it shows, and the cause of an end."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from inference_operator.api.reasons import Reason
from inference_operator.sizing.learned import Shortage


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause of an engine's end, from its own log."""

    reason: Reason
    cause: str
    """One line with the engine's figures and what to do."""


class Phase(Enum):
    """The phases of an engine's start, in their order."""

    SETTING_UP = auto()
    """The processes run and have read their configuration."""
    CONNECTING = auto()
    """Its processes connect their GPUs with each other."""
    DOWNLOADING = auto()
    """The engine downloads the model from a hub."""
    LOADING = auto()
    """It loads the weights into device memory."""
    COMPILING = auto()
    """It compiles the model for the device."""
    WARMING_UP = auto()
    """The KV cache is allocated, and the engine makes warm-up runs."""
    CAPTURING = auto()
    """It captures CUDA graphs."""


def latest_phase(log: str, messages: Mapping[Phase, re.Pattern[str]]) -> Phase | None:
    """The latest phase whose message is in the log; None if none is there. The messages are in the order of a start."""
    return next((one for one in reversed(tuple(messages)) if messages[one].search(log)), None)


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How much of the weights an engine has loaded."""

    percent: int
    """In whole tens below 100."""
    minutes_left: int | None = None
    """Until all are loaded, at the speed so far; None if the log does not tell."""


class StartLog(Protocol):
    """The log of one kind of engine."""

    @property
    def code_paths(self) -> Sequence[str]:
        """Parts of the paths of the engine's own Python files, as tracebacks have them; none for other programs."""

    def diagnose(self, log: str) -> Diagnosis | None:
        """The cause of the engine's end, from the end of its log; None if the log shows no known error."""

    def shortage(self, log: str) -> Shortage | None:
        """The memory that the engine lacked at its start, from its log; None if the log reports none."""

    def phase(self, log: str) -> Phase | None:
        """The phase that the log of a start shows; None if it shows none yet."""

    def load_progress(self, log: str) -> LoadProgress | None:
        """How much of the weights is loaded; None before the first tenth, and if the log does not tell."""

    def startup_hint(self, phase: Phase) -> str:
        """The cure, in a sentence, of a start that does not get beyond this phase; empty if none is known."""
