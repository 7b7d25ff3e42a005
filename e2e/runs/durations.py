"""How long the tests of the last runs took, in `.reports/`: `python -m e2e.runs.durations [RUN [LATER]]`.

Without arguments it lists the kept runs. RUN is one of their files, or a name, for the last run of this name. It prints
the slowest files and tests of RUN; with LATER, the seconds of both runs, and what got slower.

`e2e.runs.durations_plugin` writes the files and prints what got slower. The rules of the comparison:
- A test is compared with its best of the kept runs. Tests that only one side has do not count.
- Tests are compared by their call. Fixtures of a session or a module are paid by whichever test runs first, so their
  seconds are compared in sum.
- Where the median test is slower, the machine is. Then each test is compared with its best times this ratio. A machine
  that is faster changes nothing, since a test that waits is not faster on it.
"""

import argparse
import gzip
import json
import os
import statistics
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

FOLDER = Path(__file__).parents[2] / ".reports"
AIMS = {
    "unit": ("make unit", 150),
    "pure": ("make test", 540),
    "built": ("make test", 540),
    "e2e-stack": ("make e2e", 1320),
    "e2e-router": ("make e2e", 1320),
}
"""By the name of a run: its command, and the seconds that the command may take on two cores without other load."""
MOST_RUNS = 5
"""Runs of a name that are kept."""
NOISE_RATIO, NOISE_SECONDS = 1.5, 1.0
"""What is slower by less than either is noise."""
MEASURABLE_SECONDS = 0.05
"""Ratios of shorter tests are noise."""
FEWEST_RATIOS = 20
"""From fewer tests, the median says nothing about the machine."""
MOST_LINES = 10
MOST_CHARACTERS = 100
"""Of a test's name on a line: ids of parameters may be long."""


class Duration(NamedTuple):
    """Seconds of a test: of its call, of its fixtures, and of the CPU of its process and of children that ended."""

    call: float
    fixtures: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Run:
    """A run of pytest that came to its end, with the tests that passed, by their node id."""

    name: str
    seconds: float
    tests: dict[str, Duration]


@dataclass(frozen=True, slots=True)
class Slower:
    """A file or a test that got slower, and the seconds that it may take on this machine."""

    label: str
    seconds: float
    was: float

    def __str__(self) -> str:
        return f"{shortened(self.label)}: {self.seconds:.1f} s, was {self.was:.1f} s"


_RUN = TypeAdapter(Run)


def load(path: Path) -> Run | None:
    """A run from its file; None where the file is not whole."""
    try:
        return _RUN.validate_json(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, zlib.error, ValueError):
        return None


def kept(name: str, folder: Path = FOLDER) -> list[Run]:
    """The kept runs of a name, oldest first."""
    return [run for path in _files(folder / name) if (run := load(path))]


def keep(run: Run, folder: Path = FOLDER) -> Path:
    """Write a run at once, and remove the oldest ones."""
    own = folder / run.name
    own.mkdir(parents=True, exist_ok=True)
    for abandoned in own.glob("*.part"):
        abandoned.unlink(missing_ok=True)
    path = own / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}.{time.time_ns() % 10**9:09}-{os.getpid()}.json.gz"
    part = path.with_suffix(".part")
    content = {"name": run.name, "seconds": round(run.seconds, 1), "tests": run.tests}
    part.write_bytes(gzip.compress(json.dumps(content).encode()))
    part.replace(path)
    for old in _files(own)[:-MOST_RUNS]:
        old.unlink(missing_ok=True)
    return path


def best(runs: Iterable[Run]) -> dict[str, Duration]:
    """The shortest seconds of each test."""
    durations: dict[str, Duration] = {}
    for run in runs:
        for test, duration in run.tests.items():
            known = durations.get(test, duration)
            durations[test] = Duration(*(min(pair) for pair in zip(known, duration, strict=True)))
    return durations


def machine_ratio(now: Mapping[str, Duration], before: Mapping[str, Duration]) -> float:
    """How many times as long as before the median test takes; at least 1."""
    ratios = [
        now[test].call / duration.call
        for test, duration in before.items()
        if test in now and duration.call >= MEASURABLE_SECONDS
    ]
    return max(1.0, statistics.median(ratios)) if len(ratios) >= FEWEST_RATIOS else 1.0


def slower(now: Mapping[str, Duration], before: Mapping[str, Duration], ratio: float = 1.0) -> list[Slower]:
    """Files and tests that got slower, the largest difference first; a test stands alone if its file did not."""
    common = now.keys() & before.keys()
    calls = {test: (now[test].call, before[test].call) for test in common}
    files: defaultdict[str, list[str]] = defaultdict(list)
    for test in common:
        files[file_of(test)].append(test)
    sums = {file: _sums([calls[test] for test in tests]) for file, tests in files.items()}
    slow_files = _beyond_noise(sums, ratio)
    slow_tests = _beyond_noise(calls, ratio)
    listed = [
        Slower(_with_its_slowest(file, slow_tests), file.seconds, file.was) if slow_tests else file
        for file in slow_files
    ]
    names = {file.label for file in slow_files}
    alone = [test for test in slow_tests if file_of(test.label) not in names]
    fixtures = _sums([(now[test].fixtures, before[test].fixtures) for test in common])
    of_fixtures = _beyond_noise({"the fixtures of all tests": fixtures}, ratio)
    return sorted([*listed, *alone, *of_fixtures], key=lambda part: part.was - part.seconds)


def summary(run: Run) -> str:
    """The seconds of a run, against its aim, in a line."""
    command, aim = AIMS.get(run.name, ("", 0))
    calls, fixtures, cpu = (sum(column) for column in zip(*run.tests.values(), strict=True)) if run.tests else (0, 0, 0)
    return (
        f"{run.name}: {run.seconds:.0f} s{f'; aim of `{command}`: {aim} s' if aim else ''}. {len(run.tests):,} tests "
        f"passed: {calls:.0f} s in calls, {fixtures:.0f} s in fixtures, with {cpu:.0f} s of CPU"
    )


def comparison(run: Run, earlier: Sequence[Run]) -> Iterator[str]:
    """What got slower than in earlier runs, in at most ten lines and a heading."""
    before = best(earlier)
    if not run.tests.keys() & before.keys():
        yield "No earlier run to compare with"
        return
    ratio = machine_ratio(run.tests, before)
    if ratio > 1:
        yield f"The median test took {ratio:.2f} times as long as before. Figures after `was` have this factor"
    parts = slower(run.tests, before, ratio)
    runs = f"the best of {len(earlier)} earlier runs" if len(earlier) > 1 else "the earlier run"
    if not parts:
        yield f"Nothing got slower than in {runs}"
        return
    yield f"Slower than in {runs}:"
    shown = parts if len(parts) <= MOST_LINES else parts[: MOST_LINES - 1]
    yield from (f"  {part}" for part in shown)
    if len(parts) > len(shown):
        yield f"  and {len(parts) - len(shown)} more"


def slowest(runs: Sequence[Run], key: Callable[[str], str], seconds: Callable[[Duration], float]) -> Iterator[str]:
    """The slowest files or tests of the runs: a line has the seconds in each run, and its CPU in the last one."""
    columns: list[defaultdict[str, float]] = [defaultdict(float) for _ in runs]
    cpu: defaultdict[str, float] = defaultdict(float)
    for run, column in zip(runs, columns, strict=True):
        for test, duration in run.tests.items():
            column[key(test)] += seconds(duration)
    for test, duration in runs[-1].tests.items():
        cpu[key(test)] += duration.cpu
    tops = {label for column in columns for label in sorted(column, key=column.__getitem__)[-MOST_LINES:]}
    for label in sorted(tops, key=lambda label: -max(column.get(label, 0.0) for column in columns)):
        figures = "".join(f"{column[label]:8.1f} s" if label in column else "       -  " for column in columns)
        yield f"{figures}{cpu[label]:8.1f} s  {shortened(label)}"


def file_of(test: str) -> str:
    """The file of a node id."""
    return test.partition("::")[0]


def shortened(label: str) -> str:
    """A label that fits on a line."""
    return label if len(label) <= MOST_CHARACTERS else f"{label[: MOST_CHARACTERS - 1]}…"


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Print runs; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m e2e.runs.durations", description=__doc__.partition("\n")[0])
    parser.add_argument("run", nargs="?", help="a file, or the name of its last run")
    parser.add_argument("later", nargs="?", help="a run to compare with the first one")
    given = parser.parse_args(arguments)
    if given.run is None:
        for path in sorted(folder.glob("*/*.json.gz")):
            run = load(path)
            print(f"{path.relative_to(folder.parent)}: {summary(run) if run else 'not readable'}")
        return 0
    runs = []
    for argument in filter(None, (given.run, given.later)):
        files = _files(folder / argument)
        run = load(files[-1] if files else Path(argument))
        if run is None:
            parser.error(
                f"{argument}: neither a run's file nor a name of: {', '.join(_names(folder)) or 'no runs yet'}"
            )
        runs.append(run)
    print(*map(summary, runs), sep="\n")
    heading = f"{'before':>8}  {'after':>8}  {'CPU':>8}  " if len(runs) > 1 else f"{'seconds':>8}  {'CPU':>8}  "
    print(
        f"{heading}slowest files, with fixtures",
        *slowest(runs, file_of, lambda test: test.call + test.fixtures),
        sep="\n",
    )
    print(f"{heading}slowest tests", *slowest(runs, str, lambda test: test.call), sep="\n")
    if len(runs) > 1:
        print(*comparison(runs[1], runs[:1]), sep="\n")
    return 0


def _files(own: Path) -> list[Path]:
    return sorted(own.glob("*.json.gz"))


def _names(folder: Path) -> list[str]:
    return sorted({path.parent.name for path in folder.glob("*/*.json.gz")})


def _sums(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return sum(now for now, _ in pairs), sum(before for _, before in pairs)


def _beyond_noise(pairs: Mapping[str, tuple[float, float]], ratio: float) -> list[Slower]:
    return [
        Slower(label, now, before * ratio)
        for label, (now, before) in pairs.items()
        if now > before * ratio * NOISE_RATIO and now - before * ratio > NOISE_SECONDS
    ]


def _with_its_slowest(file: Slower, tests: Sequence[Slower]) -> str:
    inside = [test for test in tests if file_of(test.label) == file.label]
    if not inside:
        return file.label
    worst = max(inside, key=lambda test: test.seconds - test.was)
    return f"{file.label}, by {worst.label.partition('::')[2]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
