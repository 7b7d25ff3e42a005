"""Why a pod does not run: what its container said, or why that is not known."""

from dataclasses import replace

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.objects.names import ROUTER
from inference_operator.settings import Settings
from inference_operator.views.lookups import LogLookup, LogText, LookupResult, Unavailable
from inference_operator.views.pod import PodView
from tests.status.situations import CRASHING, loading, message, seen, told, view
from tests.testing.builders import deployment_status, waiting

SILENT = waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": 1}})
ENDED = "Pod qwen-engine-a does not run: container `engine` ended with exit code 1"


def log_of(pod: PodView) -> LogLookup:
    assert pod.problem
    assert pod.problem.ended
    return pod.problem.ended.log


def said(pod: PodView, found: LookupResult | None = None) -> str:
    situation = loading(pods=[pod])
    if found:
        situation = replace(situation, lookups={log_of(pod): found})
    return message(told(situation), ConditionType.RECONCILING)


KNOWN = waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": 1, "message": "CUDA out of memory"}})
CAUSE = "a GPU ran out of memory."


def test_a_container_that_says_why_needs_no_look() -> None:
    pod = view(KNOWN)
    assert said(pod).startswith(f"Pod qwen-engine-a does not run: {CAUSE}")
    again = told(loading(pods=[pod])).requeue
    assert again is not None
    assert again.lookups == ()


def test_the_log_of_one_that_says_something_else_is_looked_at_for_more() -> None:
    pod = view(CRASHING)
    assert said(pod) == f"{ENDED}: ValueError: no"
    again = told(loading(pods=[pod])).requeue
    assert again is not None
    assert again.lookups == (log_of(pod),)
    assert said(pod, LogText("CUDA out of memory\nValueError: no")).startswith(
        f"Pod qwen-engine-a does not run: {CAUSE}"
    )
    assert said(pod, LogText("nothing known")) == said(pod, Unavailable("it is gone")) == f"{ENDED}: ValueError: no"


def test_a_router_speaks_no_vllm() -> None:
    pod = view(KNOWN, component=ROUTER)
    result = told(seen(engines=deployment_status(1), routers=deployment_status(2, ready=0), pods=[pod]))
    assert message(result, ConditionType.RECONCILING) == f"{ENDED}: CUDA out of memory"
    assert result.requeue is not None
    assert result.requeue.lookups == ()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, ""),
        (LogText("Traceback\n  of old\nValueError: no\n"), ": Traceback of old ValueError: no"),
        (LogText("\n"), ""),
        (Unavailable("there is none"), "; its log cannot be read: there is none"),
    ],
)
def test_the_log_of_one_that_does_not_is_wanted_and_told(found: LookupResult | None, words: str) -> None:
    pod = view(SILENT)
    assert said(pod, found) == f"{ENDED}{words}"
    again = told(loading(pods=[pod])).requeue
    assert again is not None
    assert again.lookups == (log_of(pod),)


def test_where_logs_are_not_to_be_read_that_is_said() -> None:
    pod = view(SILENT)
    result = told(replace(loading(pods=[pod]), settings=Settings(read_logs=False)))
    words = "; its log is not read, because the operator's setting `readLogs` is off"
    assert message(result, ConditionType.RECONCILING) == f"{ENDED}{words}"
    assert result.requeue is not None
    assert result.requeue.lookups == ()
