"""Startup progress in the status: its phrases, their order, and the lookups and writes that they cause."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.reasons import ConditionType
from inference_operator.api.status import Status
from inference_operator.diagnosis.startup_progress import PHRASES, REPORT_AFTER
from inference_operator.engines.start_log import Phase
from inference_operator.manifest import Manifest
from inference_operator.pipeline.inputs import Inputs
from inference_operator.settings import Settings
from inference_operator.views.lookups import (
    EventsLookup,
    EventSummary,
    LogLookup,
    LogText,
    LookupResult,
    ObjectEvents,
    Unavailable,
)
from inference_operator.views.pod import PodView
from inference_operator.views.pod_startup import StartupStage
from tests.engines.test_vllm_phase import QUOTED
from tests.status.situations import CURRENT, loading, main_conditions, message, observed, reported, starting, view
from tests.testing.builders import NOW, deployment_status

NODE: Manifest = {}
QUEUE: Manifest = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}
SANDBOX = starting()
IMAGES = starting(state={"waiting": {"reason": "ContainerCreating"}})
RUNNING = starting(state={"running": {}}, started=False)
ANSWERED = starting(state={"running": {}}, started=True)
LOGS: dict[Phase, str] = {phase: text for text, phase in QUOTED}
WAITING = "0 of 1 engine is ready."


def start(
    status: Manifest, *, lookup_result: LookupResult | None = None, before: Status | None = None, name: str = "a"
) -> Inputs:
    pod = view(status, name=f"qwen-engine-{name}", age=1)
    return with_log(loading(pods=[pod], before=before), pod, lookup_result)


def with_log(situation: Inputs, pod: PodView, lookup_result: LookupResult | None) -> Inputs:
    assert pod.start
    log = pod.start.log
    return replace(situation, lookups={log: lookup_result}) if log and lookup_result else situation


def ready_message(situation: Inputs) -> str:
    return reported(situation).status.message


STEPS_SEEN: list[tuple[Inputs, StartupStage | Phase]] = [
    (start(QUEUE), StartupStage.QUEUE),
    (start(NODE), StartupStage.NODE),
    (start(SANDBOX), StartupStage.SANDBOX),
    (start(IMAGES), StartupStage.IMAGES),
    (start(RUNNING), StartupStage.PROCESS),
    (start(RUNNING, lookup_result=LogText("INFO something else")), StartupStage.PROCESS),
    (start(RUNNING, lookup_result=Unavailable("it is gone")), StartupStage.PROCESS),
    *((start(RUNNING, lookup_result=LogText(text)), phase) for phase, text in LOGS.items()),
]


def test_every_startup_step_has_a_phrase_and_a_recorded_log() -> None:
    assert list(PHRASES) == [*StartupStage, *Phase]
    assert LOGS.keys() == set(Phase)


@pytest.mark.parametrize(("situation", "step"), STEPS_SEEN)
def test_ready_and_reconciling_name_the_startup_step_of_the_pod(situation: Inputs, step: StartupStage | Phase) -> None:
    result = reported(situation)
    assert main_conditions(result) == ("False Starting", "True Starting", "False NotStalled")
    words = f"{WAITING} Pod qwen-engine-a {PHRASES[step]}."
    assert result.status.message == message(result, ConditionType.RECONCILING) == words


def test_the_log_of_a_start_is_looked_up_only_before_the_startup_probe_succeeds() -> None:
    def looks(situation: Inputs) -> Sequence[object]:
        again = reported(situation).requeue
        return again.lookups if again else ()

    (look,) = looks(start(RUNNING))
    assert isinstance(look, LogLookup)
    assert look.running
    for status in (NODE, SANDBOX, IMAGES, ANSWERED):
        assert looks(start(status)) == ()
    assert looks(replace(start(RUNNING), settings=Settings(read_logs=False))) == ()


def test_a_startup_step_is_reported_only_after_a_delay() -> None:
    young = loading(pods=[view(RUNNING)])
    result = reported(young)
    assert result.status.message == WAITING
    assert result.requeue is not None
    assert result.requeue.lookups == ()
    assert result.requeue.seconds == REPORT_AFTER.total_seconds()
    assert "Pod qwen-engine-a" in ready_message(replace(young, now=NOW + REPORT_AFTER))


def test_a_reported_startup_step_stays_when_the_log_no_longer_shows_it() -> None:
    before = reported(start(RUNNING, lookup_result=LogText(LOGS[Phase.LOADING]))).status
    later = reported(start(RUNNING, lookup_result=LogText("... 1,000 lines of something else"), before=before))
    assert later.status == before
    answered = reported(start(ANSWERED, before=before))
    assert answered.status == before


def pulling(*reasons: str) -> Inputs:
    """A pod with these Events, the latest first; before Kubernetes 1.36 only Events show image pulls."""
    situation = start(SANDBOX)
    (pod,) = situation.pods
    events = ObjectEvents(tuple(EventSummary(reason, "Pulling image") for reason in reasons))
    return replace(situation, lookups={EventsLookup("default", pod.name, pod.uid): events})


def test_a_pulling_event_shows_the_step_of_images() -> None:
    assert ready_message(pulling("Pulling", "Scheduled")).endswith(f" {PHRASES[StartupStage.IMAGES]}.")


def test_a_failed_mount_before_a_pulling_event_is_no_longer_a_problem() -> None:
    late = pulling("Pulling", "FailedMount", "Scheduled")
    assert ready_message(replace(late, now=NOW + timedelta(minutes=5))).endswith(f" {PHRASES[StartupStage.IMAGES]}.")


def test_a_failed_mount_after_a_pulling_event_is_a_problem() -> None:
    again = pulling("FailedMount", "Pulling", "Scheduled")
    assert "a volume cannot be mounted" in ready_message(replace(again, now=NOW + timedelta(minutes=5)))


@pytest.mark.parametrize("reasons", [(), ("Scheduled",), ("Pulled", "Pulling"), ("FailedMount",)])
def test_events_other_than_pulling_leave_the_step_at_the_sandbox(reasons: Sequence[str]) -> None:
    assert ready_message(pulling(*reasons)).endswith(f" {PHRASES[StartupStage.SANDBOX]}.")


def test_an_engine_that_passed_its_startup_probe_reports_no_startup_step() -> None:
    assert ready_message(start(ANSWERED)) == WAITING


def test_the_startup_step_of_another_pod_is_not_carried_over() -> None:
    before = reported(start(RUNNING, lookup_result=LogText(LOGS[Phase.LOADING]))).status
    assert ready_message(start(SANDBOX, before=before, name="b")).endswith(
        f"Pod qwen-engine-b {PHRASES[StartupStage.SANDBOX]}."
    )


def test_of_several_starting_pods_only_the_furthest_is_reported_and_has_its_log_looked_up() -> None:
    pods = [
        view(status, name=f"qwen-engine-{name}", age=1)
        for name, status in (("a", SANDBOX), ("b", RUNNING), ("c", RUNNING))
    ]
    situation = loading(pods=pods, engines=deployment_status(3, ready=0))
    result = reported(situation)
    spoken = "Pod qwen-engine-c starts its engine."
    assert spoken in result.status.message
    assert result.requeue is not None
    (look,) = result.requeue.lookups
    assert isinstance(look, LogLookup)
    assert look.pod == "qwen-engine-c"
    again = loading(pods=list(reversed(pods)), engines=deployment_status(3, ready=0), before=result.status)
    assert reported(again).status == result.status


def test_during_a_rollout_reconciling_names_the_startup_step_of_the_new_engine() -> None:
    pods = [
        view(RUNNING, name="qwen-engine-new", age=1, template=CURRENT),
        view(IMAGES, name="qwen-engine-old", age=9, template="earlier"),
    ]
    situation = observed(engines=deployment_status(2, updated=1, ready=1), routers=deployment_status(2), pods=pods)
    result = reported(situation)
    assert main_conditions(result) == ("True Serving", "True RollingOut", "False NotStalled")
    assert message(result, ConditionType.RECONCILING).endswith("Pod qwen-engine-new starts its engine.")


def test_an_additional_starting_engine_beside_a_serving_engine_causes_no_lookup() -> None:
    pods = [view(RUNNING, age=1)]
    situation = observed(engines=deployment_status(2, ready=1), routers=deployment_status(2), pods=pods)
    result = reported(situation)
    assert result.requeue is None
    assert "qwen-engine-a" not in " ".join(c.message for c in result.status.conditions)


SIGHTS = [QUEUE, NODE, SANDBOX, IMAGES, RUNNING, ANSWERED]
TEXTS = ["", "INFO nothing known", *LOGS.values()]


@given(
    st.lists(
        st.tuples(st.sampled_from(SIGHTS), st.lists(st.sampled_from(TEXTS), max_size=3), st.sampled_from([0, 5, 60])),
        max_size=40,
    )
)
def test_reported_startup_steps_only_advance_whatever_the_order_of_observations(
    sights: list[tuple[Manifest, list[str], int]],
) -> None:
    """At most one write per step, no step back, and no transition time changes with a message."""
    status: Status | None = None
    written: list[Status] = []
    now = NOW
    for shown, lines, seconds in sights:
        now += timedelta(seconds=seconds)
        situation = replace(start(shown, lookup_result=LogText("\n".join(lines)), before=status), now=now)
        status = reported(situation).status
        if not written or status != written[-1]:
            written.append(status)
    reported_steps = [
        next((n for n, step in enumerate(PHRASES) if f" {PHRASES[step]}." in m), -1) for m in map(_ready_of, written)
    ]
    assert reported_steps == sorted(set(reported_steps))
    assert len(written) <= len(PHRASES) + 1
    assert len({tuple(c.last_transition_time for c in one.conditions) for one in written}) <= 1


def _ready_of(status: Status) -> str:
    return status.message


def test_the_transition_time_of_a_condition_stays_when_only_its_message_changes() -> None:
    first = reported(start(SANDBOX)).status
    later = replace(
        start(RUNNING, lookup_result=LogText(LOGS[Phase.LOADING]), before=first), now=NOW + timedelta(minutes=7)
    )
    second = reported(later).status
    assert [c.message for c in first.conditions[:2]] != [c.message for c in second.conditions[:2]]
    assert [c.last_transition_time for c in first.conditions] == [c.last_transition_time for c in second.conditions]
