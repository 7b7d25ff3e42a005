r"""The error that ended an engine, whatever its wording: the innermost process's, in one line that stays the same.

Rules, for engines whose end is in no table of known errors:

1. The processes of an engine end from the inside out: a worker, then the engine's core, then the server. So the last
   error of the innermost process counts that ended before the last error of the outermost one. Of several workers
   the first one counts: the others lose their connections to it.
2. Errors that only pass on another one ("See root cause above"), and those of a process that is being stopped, count
   only where there is no other.
3. Without such an error, the first of the last lines that speaks of a failure counts, and then the last lines.
4. What differs from one start to the next is left out: process numbers, times, durations, addresses, ports, temporary
   files. So an error that repeats has one text, and one Event.
5. A line of an engine may quote anything. It has no control characters, no secrets as far as they can be recognised,
   and a bounded length.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.engines.tracebacks import LoggedError, logged_errors, plain_lines
from inference_operator.views.redact import redacted

MAX_CHARACTERS = 256 * 1024
"""Of the end of a log that are read: the most that a lookup asks for."""
MAX_LOG_LINES = 2000
"""Of the end of a log that are read: four times what a lookup asks for."""
MAX_TEXT = 480
"""Characters of an error's text. They are enough to recognise it, and leave room for the cure in an Event."""
LAST_LINES = 20
"""Last lines in which the end of an engine without tracebacks is looked for: llama-server logs its error up to six
lines before its last one."""
QUOTED_LINES = 3
"""Last lines that are quoted where none speaks of a failure."""

_PASSED_ON = re.compile(
    r"(?i)root cause|stack trace|failed core proc|worker failed with error|background process"
    r"|(?:died|terminated|exited) unexpectedly|^cancelled\.?$|child (?:process )?(?:usually )?failed"
)
"""Words of errors that pass on another one (vLLM 0.32, v1/engine/utils.py, v1/engine/exceptions.py,
v1/executor/multiproc_executor.py; SGLang 0.5.23, srt/entrypoints/engine.py)."""
_STOPPED = frozenset(
    {
        *("BrokenPipeError", "CancelledError", "ConnectionResetError", "EngineDeadError", "KeyboardInterrupt"),
        *("ProcessExitedException", "ProcessRaisedException", "SystemExit"),
    }
)
"""Errors of processes that are stopped, or whose peer is gone."""
_NOT_A_CHOICE = re.compile(
    r"OSError|IOError|FileNotFoundError|Permission|Timeout|Connect|Socket|HTTP|URL|SSL|Memory|Resource|Interrupt|Exit"
    r"|Backend(?:Error|Compiler)|AcceleratorError|Import|ModuleNotFound"
)
"""Names of errors about the surroundings of an engine. They may pass, or are no matter of its configuration."""
_RAISES = re.compile(r"raise (?:[a-z_]\w{0,60}\.){0,5}[A-Z]|assert\b")
"""A statement that makes an error. `raise error` only passes on what another process or thread raised."""

_FAILURE = re.compile(
    r"(?i)\b(?:alert|errors?|fatal|abort(?:ed|ing)?|assert(?:ion)?|failed|failure|exception|panic|cannot|unable|killed"
    r"|segfault|segmentation fault|invalid|not supported)\b|_ASSERT\("
)
_NO_FAILURE = re.compile(r"(?:\([^)]{1,80}\) )?(?:DEBUG|INFO|WARNING)\b|[\d.]{7,40} [DIW] ")
"""Records of levels below an error (vLLM, uvicorn, llama-server)."""
_NOISE = re.compile(r'\d{1,3}%\||\d{1,3}% Completed|"(?:GET|HEAD) /[^"]{0,200}" \d{3}|\s{1,20}File "|[\s~^]*$')
"""Progress bars, probes, frames and their marks."""

_CHANGES: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"\b0x[0-9a-fA-F]{4,16}\b"), "0x…"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{32,64}\b"), "…"),
    (re.compile(r"/tmp/[\w.-]{1,200}"), "/tmp/…"),  # noqa: S108 - no file is opened
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"), "…"),
    (re.compile(r"\b(?:\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b"), "…"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b"), "…"),
    (re.compile(r"(\w:)\d{4,5}\b(?!\.\d)"), r"\1…"),
    (re.compile(r"(?i)\b((?:pid|process|port|tid|thread)[=: ]{1,2}\(?)\d{1,10}\b"), r"\1…"),
    (re.compile(r"\b\d{1,9}\.\d{1,9}( ?(?:s|ms|secs?|seconds?|minutes?)\b)"), r"…\1"),
)
"""Parts that differ from one start to the next, and what stands for them. Durations in whole units are settings."""


@dataclass(frozen=True, slots=True)
class RootError:
    text: str
    file: str = ""
    is_decision: bool = False
    """Whether code raised the error on purpose (`raise`, `assert`) about something other than its surroundings."""


def root_error(log: str) -> RootError | None:
    """The error that ended an engine, by the rules at the top of this module; None for an empty log."""
    end = "\n".join(log[-MAX_CHARACTERS:].rsplit("\n", MAX_LOG_LINES)[-MAX_LOG_LINES:])
    errors = logged_errors(end)
    before = _before_the_end(errors)
    causes = [one for one in before if one.name not in _STOPPED and not any(map(_PASSED_ON.search, one.lines))]
    if chosen := _innermost(causes or before):
        return RootError(_text(chosen), chosen.file, is_decision=bool(causes) and _is_decision(chosen))
    text = _last_words(end)
    return RootError(text) if text else None


def stable_line(text: str) -> str:
    """One line of bounded length without secrets, and without what differs from one start to the next."""
    line = " ".join(redacted(text).split())
    for pattern, replacement in _CHANGES:
        line = pattern.sub(replacement, line)
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1].rstrip()}…"


def _before_the_end(errors: Sequence[LoggedError]) -> Sequence[LoggedError]:
    """The errors up to the last one of the outermost process. Then it stops the others, which log more errors."""
    ends = [number for number, error in enumerate(errors) if error.name not in _STOPPED]
    outermost = max((_depth(errors[number]) for number in ends), default=0)
    last = max((number for number in ends if _depth(errors[number]) == outermost), default=len(errors))
    return errors[: last + 1]


def _innermost(errors: Sequence[LoggedError]) -> LoggedError | None:
    inner = min((_depth(error) for error in errors), default=0)
    first = next((error.key for error in errors if _depth(error) == inner), "")
    return next((error for error in reversed(errors) if error.key == first and _depth(error) == inner), None)


def _depth(error: LoggedError) -> int:
    """How far from the inside a process is: workers, the engine's core, all others."""
    name = error.process.lower()
    if "worker" in name or name.startswith("rank"):
        return 0
    return 1 if "core" in name else 2


def _is_decision(error: LoggedError) -> bool:
    if _NOT_A_CHOICE.search(error.name):
        return False
    return error.name == "AssertionError" or bool(_RAISES.match(error.statement))


def _text(error: LoggedError) -> str:
    message = "\n".join(error.lines) or error.statement
    return stable_line(f"{error.name}: {message}" if message else error.name)


def _last_words(log: str) -> str:
    lines = [line for line in plain_lines(log) if not _NOISE.match(line)][-LAST_LINES:]
    failures = (line for line in lines if _FAILURE.search(line) and not _NO_FAILURE.match(line))
    return stable_line(next(failures, "") or "\n".join(lines[-QUOTED_LINES:]))
