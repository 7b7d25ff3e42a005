"""Each call that a client may make of a served model gets an answer, or an error that helps; no engine restarts."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from e2e.clients.calls import CALLS, Call, Outcome
from e2e.clients.packages import javascript_folder, with_javascript, with_python
from e2e.deploy import stack
from e2e.helpers.served_deployment import Served

PAGE = stack.ROOT / "docs" / "how-to" / "clients.md"
COMMANDS = {"python": [sys.executable, "-"], "js": ["node", "--input-type=module", "-"], "sh": ["sh"]}
"""What runs a program of the page on its standard input, by its language."""
PROGRAM_SECONDS = 120

Package = Callable[[str, str, Sequence[Call]], list[Outcome]]


@pytest.mark.parametrize("package", [with_python, with_javascript])
def test_each_call_gets_an_answer_or_an_error_that_helps(tiny: Served, package: Package) -> None:
    before = restarts(tiny)
    outcomes = package(tiny.address, tiny.name, CALLS)
    faults = {
        call.title: fault for call, got in zip(CALLS, outcomes, strict=True) if (fault := call.expected.fault(got))
    }
    assert faults == {}
    assert restarts(tiny) == before


@pytest.mark.parametrize(
    ("language", "shows"), [("python", r"20 tokens\n\{\s*\"animal\""), ("js", r"\w+ \w+"), ("sh", r"data: \[DONE\]")]
)
def test_each_program_of_the_page_runs(tiny: Served, language: str, shows: str) -> None:
    (program,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        COMMANDS[language],
        cwd=javascript_folder(),
        input=program.replace("tiny.default", tiny.address),
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(shows, done.stdout), done.stdout


def restarts(served: Served) -> dict[str, int]:
    """How often the container of each engine has been restarted, by pod."""
    return {
        pod: json.loads(served.kubectl("get", "pod", pod, "--output=json"))["status"]["containerStatuses"][0][
            "restartCount"
        ]
        for pod in served.pods("engine")
    }
