"""An engine that the kubelet restarted because its startup probe failed for too long."""

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
from tests.status.situations import HALF_AN_HOUR, loading, main_conditions, message, observed, reported, view
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


def shown(pod: PodView, lookup_result: LookupResult | None, log: LookupResult | None = None) -> Inputs:
    assert pod.problem
    assert pod.problem.terminated
    seen_: dict[Lookup, LookupResult | None] = {EVENTS: lookup_result, pod.problem.terminated.log: log}
    return replace(loading(pods=[pod]), lookups={look: one for look, one in seen_.items() if one})


def looks(situation: Inputs) -> Sequence[Lookup]:
    again = reported(situation).requeue
    return again.lookups if again else ()


@pytest.mark.parametrize("code", [0, 1, 130, 137, 143])
def test_a_failed_startup_probe_event_makes_a_long_start_a_startup_timeout(code: int) -> None:
    pod = view(ended(code))
    assert EVENTS in looks(loading(pods=[pod]))
    result = reported(shown(pod, KILLED))
    assert main_conditions(result) == ("False StartupTimeout", "True StartupTimeout", "False NotStalled")
    assert message(result, ConditionType.RECONCILING) == f"{SAID}. {CURE}"


def test_the_startup_timeout_message_names_the_last_phase_in_the_log() -> None:
    words = message(reported(shown(view(ended(137)), KILLED, LOADING)), ConditionType.RECONCILING)
    assert words == f"{SAID}; the last phase in its log: it loads the weights. {CURE}"


def test_a_start_that_hangs_while_gpus_connect_names_the_variable_that_helps() -> None:
    log = LogText("(Worker_TP0 pid=96) INFO 11-21 15:43:35 [pynccl.py:148] vLLM is using nccl==2.27.5\n")
    words = message(reported(shown(view(ended(137)), KILLED, log)), ConditionType.RECONCILING)
    assert words == (
        f"{SAID}; the last phase in its log: it connects its GPUs with each other. {CURE} If the GPUs have no NVLink,"
        " for example in a virtual machine, set `NCCL_P2P_DISABLE=1` in `spec.engine.env`."
    )


def test_the_startup_timeout_is_reported_while_the_container_starts_again() -> None:
    status = ended(137)
    container = status["containerStatuses"][0]
    container.update(state={"running": {}}, started=False, restartCount=1)
    assert main_conditions(reported(shown(view(status), KILLED)))[1] == "True StartupTimeout"


@pytest.mark.parametrize(
    "lookup_result",
    [
        None,
        Unavailable("the operator has no right to it"),
        ObjectEvents(()),
        ObjectEvents((EventSummary("Killing", "Container engine failed liveness probe, will be restarted"),)),
        ObjectEvents((EventSummary("Killing", "Container log-shipper failed startup probe, will be restarted"),)),
    ],
)
def test_without_a_failed_startup_probe_event_a_terminated_engine_is_a_crash_loop(
    lookup_result: LookupResult | None,
) -> None:
    assert main_conditions(reported(shown(view(ended(137)), lookup_result)))[1] == "True CrashLoop"


def test_events_are_not_looked_up_for_a_short_run_or_an_out_of_memory_kill() -> None:
    assert EVENTS not in looks(loading(pods=[view(ended(1, finishedAt="2026-01-02T02:50:00Z"))]))
    assert EVENTS not in looks(loading(pods=[view(ended(1, finishedAt=None))]))
    assert EVENTS not in looks(loading(pods=[view(ended(137, reason="OOMKilled"))]))


def test_events_are_not_looked_up_for_sidecars_and_routers() -> None:
    end = {"terminated": {"exitCode": 137, **HALF_AN_HOUR}}
    pods = [view(waiting("CrashLoopBackOff", "", container="log-shipper", last=end))]
    assert EVENTS not in looks(loading(pods=pods))
    router = view(ended(137), component=ROUTER)
    assert EVENTS not in looks(
        observed(engines=deployment_status(1), routers=deployment_status(2, ready=0), pods=[router])
    )


def test_events_are_looked_up_even_with_read_logs_off() -> None:
    situation = replace(loading(pods=[view(ended(137))]), settings=Settings(read_logs=False))
    assert looks(situation) == (EVENTS,)
