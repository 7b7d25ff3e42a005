"""An engine that its kubelet ended because it had not answered in time."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.inputs import Inputs
from inference_operator.settings import Settings
from inference_operator.views.lookups import (
    EventsLookup,
    EventSummary,
    LogText,
    Lookup,
    LookupResult,
    ObjectEvents,
    Unavailable,
)
from inference_operator.views.pod import PodView
from tests.status.situations import HALF_AN_HOUR, loading, message, seen, three, told, view
from tests.testing.builders import deployment_status, waiting

EVENTS = EventsLookup("default", "qwen-engine-a", "pod-qwen-engine-a")
KILLED = ObjectEvents((EventSummary("Killing", "Container engine failed startup probe, will be restarted"),))
LOADING = LogText("Loading safetensors checkpoint shards:  40% Completed | 2/5")
SAID = (
    "Pod qwen-engine-a does not run: container `engine` did not answer within 30 minutes, so the kubelet restarted it"
)
CURE = "Raise `spec.startupTimeout`, or serve the model from a claim or an image."


def ended(code: int, **more: object) -> Manifest:
    return waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": code, **HALF_AN_HOUR, **more}})


def shown(pod: PodView, found: LookupResult | None, log: LookupResult | None = None) -> Inputs:
    assert pod.problem
    assert pod.problem.ended
    seen_: dict[Lookup, LookupResult | None] = {EVENTS: found, pod.problem.ended.log: log}
    return replace(loading(pods=[pod]), lookups={look: one for look, one in seen_.items() if one})


def looks(situation: Inputs) -> Sequence[Lookup]:
    again = told(situation).requeue
    return again.lookups if again else ()


@pytest.mark.parametrize("code", [0, 1, 130, 137, 143])
def test_who_may_have_been_ended_has_its_events_looked_at(code: int) -> None:
    pod = view(ended(code))
    assert EVENTS in looks(loading(pods=[pod]))
    result = told(shown(pod, KILLED))
    assert three(result) == ("False StartupTimeout", "True StartupTimeout", "False NotStalled")
    assert message(result, ConditionType.RECONCILING) == f"{SAID}. {CURE}"


def test_how_far_it_had_come_is_told_too() -> None:
    words = message(told(shown(view(ended(137)), KILLED, LOADING)), ConditionType.RECONCILING)
    assert words == f"{SAID}; the last phase in its log: it loads the weights. {CURE}"


def test_it_is_told_while_it_starts_anew() -> None:
    status = ended(137)
    container = status["containerStatuses"][0]
    container.update(state={"running": {}}, started=False, restartCount=1)
    assert three(told(shown(view(status), KILLED)))[1] == "True StartupTimeout"


@pytest.mark.parametrize(
    "found",
    [
        None,
        Unavailable("the operator has no right to it"),
        ObjectEvents(()),
        ObjectEvents((EventSummary("Killing", "Container engine failed liveness probe, will be restarted"),)),
        ObjectEvents((EventSummary("Killing", "Container log-shipper failed startup probe, will be restarted"),)),
    ],
)
def test_another_end_is_none_of_time(found: LookupResult | None) -> None:
    assert three(told(shown(view(ended(137)), found)))[1] == "True CrashLoop"


def test_an_engine_that_ended_by_itself_costs_no_look_at_events() -> None:
    assert EVENTS not in looks(loading(pods=[view(ended(1, finishedAt="2026-01-02T02:50:00Z"))]))
    assert EVENTS not in looks(loading(pods=[view(ended(1, finishedAt=None))]))
    assert EVENTS not in looks(loading(pods=[view(ended(137, reason="OOMKilled"))]))


def test_a_container_beside_it_has_no_startup_timeout_of_the_engines() -> None:
    end = {"terminated": {"exitCode": 137, **HALF_AN_HOUR}}
    pods = [view(waiting("CrashLoopBackOff", "", container="log-shipper", last=end))]
    assert EVENTS not in looks(loading(pods=pods))
    router = view(ended(137), component=ROUTER)
    assert EVENTS not in looks(seen(engines=deployment_status(1), routers=deployment_status(2, ready=0), pods=[router]))


def test_events_are_looked_at_where_logs_are_not() -> None:
    situation = replace(loading(pods=[view(ended(137))]), settings=Settings(read_logs=False))
    assert looks(situation) == (EVENTS,)
