"""Mutants of functions, judged in forks of a process that has collected the tests once.

The parent collects the tests, and a first fork runs them and tells which of them enter which functions. Each mutant
then gets a fork of its own. It replaces the code of the living functions, so that nothing on disk changes, and runs
the tests that enter the mutant's function, the quickest first, until one fails.
"""

import functools
import gc
import os
import pickle
import resource
import select
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, BinaryIO

import pytest

from tests.mutants.operators import Mutant
from tests.mutants.verdict import Verdict

ROOT = Path(__file__).parents[2]
CPU_SECONDS, WALL_SECONDS = 30, 300
"""Bounds of one mutant, added to three times what its tests take without it."""
OPERATOR = "inference_operator."
MEMORY_BYTES = 6 << 30
"""A mutant that appends without an end fails by MemoryError."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A test, as it is without a mutant."""

    index: int
    passed: bool
    seconds: float
    functions: frozenset[tuple[str, int]]
    """File and first line of each code that ran."""


class InPlace:
    """A plugin that runs mutants in place of a session's tests."""

    def __init__(
        self, mutants: Iterable[Mutant], judge: Callable[[Mutant, Verdict], None], cpu_seconds: float = CPU_SECONDS
    ) -> None:
        self.mutants, self.judge, self.cpu_seconds = list(mutants), judge, cpu_seconds
        self.called: dict[int, CodeType] = {}
        self.failed: str | None = None

    def pytest_collection(self) -> None:
        """A failing example need not be the smallest one, and none is kept."""
        from hypothesis import Phase, settings  # noqa: PLC0415 pytest imports its plugins first

        settings.register_profile(
            "mutants", settings.get_profile("few"), database=None, phases=[Phase.explicit, Phase.generate]
        )
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        sys.settrace(None)
        at_import = _functions_of(self.called)
        self.living = _Living()
        before = list(_read(lambda told: self._baseline(session.items, told), seconds=3600))
        failing = [session.items[test.index].nodeid for test in before if not test.passed]
        if failing or len(before) < len(session.items):
            raise session.Failed(f"without a mutant, tests fail: {failing or session.items[len(before)].nodeid}")
        for mutant in self.mutants:
            entering = [test for test in before if _enters(test.functions, mutant)]
            tests = _in_order(entering, [session.items[test.index].nodeid for test in entering])
            verdict = self._verdict(mutant, session.items, tests)
            if verdict.outcome == "survived" and _enters(at_import, mutant):
                verdict = Verdict("unknown")  # its values from before the change may still be in use
            self.judge(mutant, verdict)
        return True

    def _baseline(self, items: list[pytest.Item], told: Callable[[Baseline], None]) -> None:
        threading.settrace(self.on_call)
        for index, item in enumerate(items):
            self.called.clear()
            self.failed = None
            started = time.process_time()
            if not index or item.path != items[index - 1].path:
                self.living.forget()  # so that the tests of a file enter what those of others have entered
            sys.settrace(self.on_call)
            _run(item, items[index + 1] if index + 1 < len(items) else None)
            sys.settrace(None)
            seconds = time.process_time() - started
            told(Baseline(index, self.failed is None, seconds, frozenset(_functions_of(self.called))))

    def on_call(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002 the interpreter's form
        """For `sys.settrace`, without lines: remembers which functions run."""
        code = frame.f_code
        self.called[id(code)] = code

    def _verdict(self, mutant: Mutant, items: list[pytest.Item], tests: list[Baseline]) -> Verdict:
        if not tests:
            return Verdict("survived", "no test enters the function")
        usual = 3 * sum(test.seconds for test in tests)

        def attempt(told: Callable[[Verdict], None]) -> None:
            limit = int(time.process_time() + self.cpu_seconds + usual)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            if not self.living.replaced(mutant):
                told(Verdict("unknown"))
                return
            chosen = [items[test.index] for test in tests]
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                _run(item, following)
                if self.failed:
                    told(Verdict("killed", self.failed))
                    return
            told(Verdict("survived", f"{len(tests)} tests enter the function"))

        return next(_read(attempt, seconds=WALL_SECONDS + 10 * usual), Verdict("timeout"))


def _run(item: pytest.Item, following: pytest.Item | None) -> None:
    item.ihook.pytest_runtest_protocol(item=item, nextitem=following)


def _in_order(tests: list[Baseline], names: list[str]) -> list[Baseline]:
    """The quickest first; of the parameters of a test, the second come after the first of all tests, and so on."""
    seen: Counter[str] = Counter()
    ranked = []
    for test, name in sorted(zip(tests, names, strict=True), key=lambda pair: pair[0].seconds):
        function = name.partition("[")[0]
        ranked.append((seen[function], test.seconds, test.index, test))
        seen[function] += 1
    return [test for *_, test in sorted(ranked)]


def _functions_of(called: dict[int, CodeType]) -> set[tuple[str, int]]:
    root = str(ROOT / "operator")
    return {
        (code.co_filename, code.co_firstlineno) for code in list(called.values()) if code.co_filename.startswith(root)
    }


def _enters(functions: Iterable[tuple[str, int]], mutant: Mutant) -> bool:
    first, last = mutant.lines or (0, 0)
    path = str(ROOT / mutant.path)
    return any(file == path and first <= line <= last for file, line in functions)


class _Living:
    """The functions and the caches of the operator in this process."""

    def __init__(self) -> None:
        self.functions: dict[str, list[FunctionType]] = {}
        self.caches = []
        for value in gc.get_objects():
            if isinstance(value, FunctionType) and value.__module__ and value.__module__.startswith(OPERATOR):
                self.functions.setdefault(value.__code__.co_filename, []).append(value)
            elif isinstance(value, functools._lru_cache_wrapper) and value.__module__.startswith(OPERATOR):  # noqa: SLF001
                self.caches.append(value)

    def forget(self) -> None:
        """Forget what functions have returned."""
        for cache in self.caches:
            cache.cache_clear()

    def replaced(self, mutant: Mutant) -> bool:
        """Replaces the code of the functions around the place; False if a function cannot take its new code."""
        path = str(ROOT / mutant.path)
        first, last = mutant.lines or (0, 0)
        new: dict[tuple[str, int], CodeType | None] = {}
        for code in _codes(compile(mutant.text, path, "exec", dont_inherit=True)):
            key = (code.co_qualname, code.co_firstlineno)
            new[key] = None if key in new else code  # two lambdas of one line
        for function in self.functions.get(path, []):
            key = (function.__code__.co_qualname, function.__code__.co_firstlineno)
            if first <= key[1] <= last:
                changed = new.get(key)
                if changed is None or changed.co_freevars != function.__code__.co_freevars:
                    return False
                function.__code__ = changed
        self.forget()
        return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _read(work: Callable[[Callable[[Any], None]], None], seconds: float) -> Iterator[Any]:
    """What a fork tells before it ends, or is ended with all its processes."""
    end, start = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        with suppress(BaseException):
            quiet = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(quiet, descriptor)
            with os.fdopen(start, "wb") as out:
                work(lambda told: _tell(out, told))
        os._exit(0)
    os.close(start)
    deadline = time.monotonic() + seconds
    try:
        with os.fdopen(end, "rb") as told:
            while select.select([told], [], [], max(0.0, deadline - time.monotonic()))[0] and told.peek(1):
                yield pickle.load(told)  # noqa: S301 the fork's own words
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _tell(out: BinaryIO, told: object) -> None:
    pickle.dump(told, out)
    out.flush()


def run(plugin: InPlace, tests: Iterable[str]) -> None:
    """Judge the plugin's mutants by these files and folders of tests."""
    sys.settrace(plugin.on_call)
    options = ["-q", "-s", "-m", "not full", "-p", "no:xdist", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    status = pytest.main([*options, *tests], plugins=[plugin])
    if status not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise SystemExit(f"the tests without a mutant ended with {status!r}")
