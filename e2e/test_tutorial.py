"""The tutorial on a real node: each command of its page runs in order, and prints what the page shows.

In the page, `...` stands for any text, as in doctest.
"""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster

pytestmark = pytest.mark.full  # two starts of vLLM, and each command is a process

PAGE = stack.ROOT / "docs" / "tutorial" / "first-model.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT = "$ "
COMMAND_SECONDS = 900
SERVED = "otters"


def commands(page: str) -> Iterator[tuple[str, str]]:
    """The commands of a page with their output."""
    for block in _BLOCK.findall(page):
        for step in re.split(rf"^{re.escape(_PROMPT)}", block, flags=re.MULTILINE)[1:]:
            command, _, output = step.partition("\n")
            while command.endswith("\\"):
                more, _, output = output.partition("\n")
                command = f"{command[:-1]}{more}"
            yield command, output


@pytest.fixture
def clean(cluster: LocalCluster) -> Iterator[None]:
    """Nothing of the tutorial is left."""
    yield
    cluster.kubectl("delete", f"infd/{SERVED}", "--wait=true", "--ignore-not-found")
    Served(cluster, SERVED).await_gone()


@pytest.mark.usefixtures("clean")
def test_each_command_prints_what_the_page_shows(cluster: LocalCluster, tmp_path: Path) -> None:
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), str(cluster.binary("kubectl").parent), os.environ["PATH"]]
    )
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig), "COLUMNS": "120"}
    checker = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    steps = list(commands(PAGE.read_text()))
    assert steps
    for command, wanted in steps:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        print(f"$ {command}\n{done.stdout}", flush=True)
        assert checker.check_output(wanted, done.stdout, flags), f"{command} shows\n{done.stdout}"
