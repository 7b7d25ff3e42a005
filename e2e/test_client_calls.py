"""Each call that a client may make of a served model gets an answer, or an error that helps; no engine restarts."""

import json
from collections.abc import Callable, Sequence

import pytest

from e2e.clients.calls import CALLS, Call, Outcome
from e2e.clients.packages import with_javascript, with_python
from e2e.served import Served

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


def restarts(served: Served) -> dict[str, int]:
    """How often the container of each engine has been restarted, by pod."""
    return {
        pod: json.loads(served.kubectl("get", "pod", pod, "--output=json"))["status"]["containerStatuses"][0][
            "restartCount"
        ]
        for pod in served.pods("engine")
    }
