r"""The errors that a log has, with the process that wrote each and the last frame of its traceback.

Rules, for one process after the other, since processes write between each other's lines:

1. What loggers and launchers put before a line is taken off: the process of vLLM's `(Worker_TP0 pid=7)` and of
   `torchrun`'s `[rank0]:`, and level, time and place. Lines of levels below an error count for nothing.
2. After frames (`File "..."`) the first line that is not indented is the error, also where the head of the traceback
   was cut off. Without frames, a line counts that begins with a name such as `ValueError:`.
3. An error has the lines that follow, up to a blank line, another traceback or another record of the logger.
4. Bars of an exception group are taken off. So its last inner error counts, since it comes last.
5. The end of a C++ program (`what():`) and of the interpreter (`Fatal Python error:`) are errors too.

Logs are hostile: each line is cut off, each pattern is anchored and bounded, and each line is looked at once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_LINE = 2000
"""Characters of a line that are read. Longer lines are no tracebacks."""
MAX_LINES = 5
"""Lines of one error. Pydantic names a field in the second line, and why in the third."""
MAX_PROCESSES = 64
"""Processes whose lines are kept apart. An engine has one for each GPU, and a few more."""
_ESCAPE = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
"""Characters that a terminal or a browser carries out; also those that turn the direction of text."""
_PROCESS = re.compile(
    r"\((?P<name>[A-Za-z][\w.-]{0,60})(?: rank=\d{1,5})? pid=\d{1,10}(?:, ip=[^)\s]{1,64})?\) ?"  # vLLM, Ray
    r"|\[(?P<rank>rank\d{1,5})\]: ?"  # torch 2.11, distributed/elastic
)
_RECORD = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]{1,120}\] ?"  # vLLM 0.32, logger.py
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [\w ]{1,40})?\] "  # SGLang 0.5.23, srt/utils/common.py
    r"|(?P<letter>[IWEF])\d{4} \d\d:\d\d:\d\d[^\]]{0,200}\] "  # glog, torch
    r"|\[(?P<own>DEBUG|INFO|WARNING|ERROR)\] "
)
_LOWER_LEVELS = frozenset({"DEBUG", "INFO", "WARNING", "I", "W"})
_BAR = re.compile(r" {0,60}[|+] ?(?:-\+-{4}[-+ \d.]{0,80}$|-{4}[-+ \d.]{0,80}$)?")
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r' {1,20}File "(?P<file>[^"]{1,1000})", line \d{1,9}')
_ERROR = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,200})(?:: (?P<text>.*)|:?)$")
_NAMED = re.compile(r"(?:Error|Exception|Interrupt|Exit)$|error$")
"""How the name of an error ends that is known as such without frames before it."""
_FATAL = re.compile(r"Fatal Python error: (?P<text>.+)")  # CPython 3.13, Python/pylifecycle.c
_THROWN = re.compile(r"terminate called after throwing an instance of '(?P<type>[\w:]{1,200})")  # libstdc++
_WHAT = re.compile(r" {1,10}what\(\): {0,4}(?P<text>.+)")
_MARKS = re.compile(r"[\s~^]*$|\s{1,20}\.\.\.<\d{1,9} lines?>\.\.\.$")
_NO_ERRORS = frozenset({"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "TRACE", "NOTE", "Traceback", "Process"})
"""Words that begin a line as the name of an error does."""
_AFTER_AN_ERROR = re.compile(
    r"\[|Traceback|Process |During handling of|The above exception|Exception (?:ignored|raised from)|frame #"
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|For debugging|Compile with |/[^\s:]{1,300}:\d{1,6}: "
)
"""How a line begins that no longer belongs to the error before it."""


@dataclass(slots=True)
class LoggedError:
    process: str
    key: str
    """The process with its number, which tells it from others of the name."""
    name: str
    """The class without its modules, such as `ValueError`."""
    lines: list[str]
    file: str = ""
    statement: str = ""
    """The first line of the statement of the last frame; empty where the log has none."""


@dataclass(slots=True)
class _Process:
    key: str
    name: str
    in_frames: bool = False
    file: str = ""
    statement: str = ""
    thrown: str = ""
    record: str = ""
    """The prefix of the logger before the line of the open error."""
    open: LoggedError | None = None
    """The error whose message may go on."""

    def read(self, line: str, record: str) -> LoggedError | None:
        if line.endswith(_TRACEBACK):
            self._frame()
        elif frame := _FRAME.match(line):
            self._frame(frame["file"])
        elif self.in_frames and (not line or line[0] == " "):
            self.statement = self.statement or line.strip()
        elif error := self._error(line):
            self.in_frames, self.open, self.record = False, error, record
            return error
        elif self.open:
            self._continue(line, record)
        return None

    def _frame(self, file: str = "") -> None:
        self.in_frames, self.file, self.statement, self.open = True, file, "", None

    def _error(self, line: str) -> LoggedError | None:
        if fatal := _FATAL.match(line):
            return LoggedError(self.name, self.key, "Fatal Python error", [fatal["text"]])
        if thrown := _THROWN.match(line):
            self.thrown = thrown["type"].rpartition(":")[2]
            return LoggedError(self.name, self.key, self.thrown, [])
        if self.thrown and (what := _WHAT.match(line)):
            return LoggedError(self.name, self.key, self.thrown, [what["text"]])
        if not (match := _ERROR.match(line)):
            return None
        name = match["type"].rpartition(".")[2]
        is_named = bool(_NAMED.search(name)) and not self.open
        if name in _NO_ERRORS or not (is_named or (self.in_frames and self.file and name[:1].isupper())):
            return None
        file, statement = (self.file, self.statement) if self.in_frames else ("", "")
        text = match["text"]
        return LoggedError(self.name, self.key, name, [text] if text else [], file, statement)

    def _continue(self, line: str, record: str) -> None:
        if self.open is None or not line.strip() or record != self.record or _AFTER_AN_ERROR.match(line):
            self.open = None
        elif len(self.open.lines) < MAX_LINES and not _MARKS.match(line):
            self.open.lines.append(line.strip())


def plain_lines(log: str) -> Iterator[str]:
    """The lines of a log without control characters, each cut off; a line that was overwritten is its last state."""
    for line in log.split("\n"):
        yield _CONTROL.sub("", _ESCAPE.sub("", line.rstrip("\r").rpartition("\r")[2][:MAX_LINE])).rstrip()


def logged_errors(log: str) -> list[LoggedError]:
    processes: dict[str, _Process] = {}
    errors = []
    for raw in plain_lines(log):
        line, key, name = raw, "", ""
        if prefix := _PROCESS.match(line):
            line, key, name = line[prefix.end() :], prefix[0], prefix["name"] or prefix["rank"]
        key = key if key in processes or len(processes) < MAX_PROCESSES else ""
        process = processes.setdefault(key, _Process(key, name))
        record = _RECORD.match(line)
        if record and (record["level"] or record["letter"] or record["own"]) in _LOWER_LEVELS:
            process.open = None
            continue
        line = line[record.end() :] if record else line
        if bar := _BAR.match(line):
            line = line[bar.end() :]
        if error := process.read(line, record[0] if record else ""):
            errors.append(error)
    return errors
