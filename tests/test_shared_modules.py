"""Modules of end-to-end tests that either of two processes runs."""

import re
import subprocess
import sys
from pathlib import Path

from e2e.runs import end_to_end, shared_modules

ROOT = Path(end_to_end.__file__).parents[2]
GROUPS = (("test_b.py", "test_c.py"), ("test_d.py",))
TEST = "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test(n): print('ran', __name__, n)\n"


def test_a_process_runs_what_only_it_has_and_then_what_the_other_one_has_not_taken(tmp_path: Path) -> None:
    for name in "dcba":
        (tmp_path / f"test_{name}.py").write_text(TEST)
    folder = tmp_path / "taken"
    folder.mkdir()
    (folder / "1").touch()
    command = (sys.executable, "-m", "pytest", "-qs", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path))
    done = subprocess.run(
        [*command, *shared_modules.options(folder, GROUPS)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"ran test_(\w \d)", done.stdout) == ["a 1", "a 2", "b 1", "b 2", "c 1", "c 2"]
    assert {file.name for file in folder.iterdir()} == {"0", "1"}


def test_the_shared_modules_of_the_suite_are_there_and_are_no_part_of_one_half() -> None:
    shared = [module for group in end_to_end.SHARED for module in group]
    assert len(set(shared)) == len(shared)
    for module in shared:
        assert (ROOT / module).is_file()
        assert not module.startswith(tuple(f"{path}/" for path in end_to_end.WITHOUT_STACK))
