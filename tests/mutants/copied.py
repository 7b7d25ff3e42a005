"""A copy of the repository in a temporary folder, in which files are changed and tests run in processes of their own.

For what a fork of running tests cannot judge: constants and tables of modules, and files that are no Python.
"""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.mutants.verdict import Verdict

ROOT = Path(__file__).parents[2]
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
ADMISSION = Path("operator/inference_operator/admission")
POLICIES = {
    Path(line.rpartition("> ")[2].strip()): line.removeprefix("\t@$(RUN) ")
    for line in (ROOT / "Makefile").read_text().replace("\\\n", " ").splitlines()
    if line.startswith("\t@$(RUN) infd policy")
} | {
    Path(line.split()[-1]): line.removeprefix("\t@")
    for line in (ROOT / "Makefile").read_text().splitlines()
    if line.startswith(f"\t@cp {ADMISSION}/")
}
"""Files of the chart that are made of the policies' code, and the commands of `make crd` that make them."""
PASSED, SOME_FAILED, NOT_COLLECTED = 0, 1, 2
"""Exit statuses of pytest; a file that cannot be imported is not collected."""


class Copy:
    """One copy, for one test run at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))},
            "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'operator'}",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    @contextmanager
    def changed(self, texts: Mapping[Path, str]) -> Iterator[None]:
        """With these files as they are given, whose paths are relative to the repository."""
        made = POLICIES if any(path.is_relative_to(ADMISSION) for path in texts) else {}
        before = {path: (self.folder / path).read_bytes() for path in (*texts, *made)}
        try:
            for path, text in texts.items():
                self._write(path, text.encode())
            for command in made.values():
                subprocess.run(["/bin/bash", "-c", command], cwd=self.folder, env=self.environment, check=True)
            yield
        finally:
            for path, content in before.items():
                self._write(path, content)

    def _write(self, path: Path, content: bytes) -> None:
        (self.folder / path).write_bytes(content)
        if path.suffix == ".py":  # a file of the same size and second has the same bytecode for Python
            Path(importlib.util.cache_from_source(str(self.folder / path))).unlink(missing_ok=True)

    def verdict(self, tests: Sequence[str], seconds: float) -> Verdict:
        """Whether one of these tests fails."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:xdist", "-p", "no:cacheprovider"]
        with subprocess.Popen(
            [*command, "-m", "full or not full", *tests],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                return Verdict("timeout", f"after {seconds:.0f} s")
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode == PASSED:
            return Verdict("survived", f"all of {' '.join(tests)} pass")
        failed = FAILED.search(output)
        if process.returncode not in {SOME_FAILED, NOT_COLLECTED} or not failed:
            raise SystemExit(f"pytest ended with {process.returncode}:\n{output[-4000:]}")
        return Verdict("killed", failed[1])


@contextmanager
def copy() -> Iterator[Copy]:
    """A copy of what git tracks or would track, with Python's bytecode; removed at the end."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        files = [Path(path) for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()]
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, folder / path)
        for parent in {path.parent for path in files if path.suffix == ".py"}:
            if (ROOT / parent / "__pycache__").is_dir():
                shutil.copytree(ROOT / parent / "__pycache__", folder / parent / "__pycache__")
        yield Copy(folder)
