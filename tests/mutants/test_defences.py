"""Each promise of the security page is noticed to be broken once its defence is removed: defences.toml.

In processes of their own: an interrupted run goes on where it was. It needs what `make test` and `make e2e` need.
"""

import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_SECONDS = 45 * 60


@pytest.mark.full
def test_every_promise_fails_without_its_defence() -> None:
    command = [sys.executable, "-m", "tests.mutants", "--defence", "all"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
