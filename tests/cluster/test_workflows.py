"""The workflow files, checked by two linters. A host that runs them is not here."""

import re
import subprocess
import sys
from pathlib import Path

from e2e.go_modules import ensure_actionlint

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
MAKE = re.compile(r"\bmake ([a-z][a-z0-9-]*)")


def test_workflows_have_valid_syntax_expressions_and_shell() -> None:
    run(ensure_actionlint(), "-no-color", *FOLDER.glob("*.yml"))


def test_workflows_have_no_known_weakness() -> None:
    zizmor = Path(sys.executable).with_name("zizmor")
    run(zizmor, "--offline", "--no-progress", "--persona=pedantic", FOLDER)


def test_workflows_run_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = [line for path in FOLDER.glob("*.yml") for line in path.read_text().splitlines() if "apt-get" not in line]
    named = {target for line in lines for target in MAKE.findall(line)}
    assert named == {"test", "e2e", "release"}
    assert named <= targets


def run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
