"""Where a start is: which words are told, in which order, how often, and what that costs."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.reasons import ConditionType
from inference_operator.api.status import Status
from inference_operator.diagnosis.startup_progress import PHRASES, REPORT_AFTER
from inference_operator.engines.base import Phase
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
from tests.status.situations import CURRENT, loading, message, seen, starting, three, told, view
from tests.testing.builders import NOW, deployment_status

NODE: Manifest = {}
QUEUE: Manifest = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}
SANDBOX = starting()
IMAGES = starting(state={"waiting": {"reason": "ContainerCreating"}})
RUNNING = starting(state={"running": {}}, started=False)
ANSWERED = starting(state={"running": {}}, started=True)
LOGS: dict[Phase, str] = {phase: text for text, phase in QUOTED}
WAITING = "0 of 1 engines are ready."


def start(
    status: Manifest, *, found: LookupResult | None = None, before: Status | None = None, name: str = "a"
) -> Inputs:
    pod = view(status, name=f"qwen-engine-{name}", age=1)
    return with_log(loading(pods=[pod], before=before), pod, found)


def with_log(situation: Inputs, pod: PodView, found: LookupResult | None) -> Inputs:
    assert pod.start
    log = pod.start.log
    return replace(situation, lookups={log: found}) if log and found else situation


def ready_message(situation: Inputs) -> str:
    return message(told(situation), ConditionType.READY)


STEPS_SEEN: list[tuple[Inputs, StartupStage | Phase]] = [
    (start(QUEUE), StartupStage.QUEUE),
    (start(NODE), StartupStage.NODE),
    (start(SANDBOX), StartupStage.SANDBOX),
    (start(IMAGES), StartupStage.IMAGES),
    (start(RUNNING), StartupStage.PROCESS),
    (start(RUNNING, found=LogText("INFO something else")), StartupStage.PROCESS),
    (start(RUNNING, found=Unavailable("it is gone")), StartupStage.PROCESS),
    *((start(RUNNING, found=LogText(text)), phase) for phase, text in LOGS.items()),
]


def test_there_are_words_for_every_step() -> None:
    assert list(PHRASES) == [*StartupStage, *Phase]
    assert LOGS.keys() == set(Phase)


@pytest.mark.parametrize(("situation", "step"), STEPS_SEEN)
def test_a_step_is_told(situation: Inputs, step: StartupStage | Phase) -> None:
    result = told(situation)
    assert three(result) == ("False Starting", "True Starting", "False NotStalled")
    words = f"{WAITING} Pod qwen-engine-a {PHRASES[step]}."
    assert [c.message for c in result.status.conditions[:2]] == [words, words]


def test_the_log_is_looked_at_only_where_the_engine_runs_and_has_not_answered() -> None:
    def looks(situation: Inputs) -> Sequence[object]:
        again = told(situation).requeue
        return again.lookups if again else ()

    (look,) = looks(start(RUNNING))
    assert isinstance(look, LogLookup)
    assert look.running
    for status in (NODE, SANDBOX, IMAGES, ANSWERED):
        assert looks(start(status)) == ()
    assert looks(replace(start(RUNNING), settings=Settings(read_logs=False))) == ()


def test_a_start_that_is_over_soon_is_not_told() -> None:
    young = loading(pods=[view(RUNNING)])
    result = told(young)
    assert message(result, ConditionType.READY) == WAITING
    assert result.requeue is not None
    assert result.requeue.lookups == ()
    assert result.requeue.seconds == REPORT_AFTER.total_seconds()
    assert "Pod qwen-engine-a" in ready_message(replace(young, now=NOW + REPORT_AFTER))


def test_what_was_told_stays_where_the_log_no_longer_shows_it() -> None:
    before = told(start(RUNNING, found=LogText(LOGS[Phase.LOADING]))).status
    later = told(start(RUNNING, found=LogText("... 1,000 lines of something else"), before=before))
    assert later.status == before
    answered = told(start(ANSWERED, before=before))
    assert answered.status == before


def pulling(*reasons: str) -> Inputs:
    """On a node before Kubernetes 1.36, whose kubelet says nothing of images in the pod's status; the latest first."""
    situation = start(SANDBOX)
    (pod,) = situation.pods
    events = ObjectEvents(tuple(EventSummary(reason, "Pulling image") for reason in reasons))
    return replace(situation, lookups={EventsLookup("default", pod.name, pod.uid): events})


def test_events_tell_that_an_image_is_pulled_where_the_pods_status_does_not() -> None:
    assert ready_message(pulling("Pulling", "Scheduled")).endswith(f" {PHRASES[StartupStage.IMAGES]}.")


def test_a_volume_that_was_late_is_over_once_an_image_is_pulled() -> None:
    late = pulling("Pulling", "FailedMount", "Scheduled")
    assert ready_message(replace(late, now=NOW + timedelta(minutes=5))).endswith(f" {PHRASES[StartupStage.IMAGES]}.")


def test_a_volume_that_fails_after_an_image_was_pulled_is_told() -> None:
    again = pulling("FailedMount", "Pulling", "Scheduled")
    assert "a volume cannot be mounted" in ready_message(replace(again, now=NOW + timedelta(minutes=5)))


@pytest.mark.parametrize("reasons", [(), ("Scheduled",), ("Pulled", "Pulling"), ("FailedMount",)])
def test_events_of_anything_else_do_not(reasons: Sequence[str]) -> None:
    assert ready_message(pulling(*reasons)).endswith(f" {PHRASES[StartupStage.SANDBOX]}.")


def test_an_engine_that_has_served_and_does_not_answer_is_not_starting() -> None:
    assert ready_message(start(ANSWERED)) == WAITING


def test_another_pod_begins_at_its_own_beginning() -> None:
    before = told(start(RUNNING, found=LogText(LOGS[Phase.LOADING]))).status
    assert ready_message(start(SANDBOX, before=before, name="b")).endswith(
        f"Pod qwen-engine-b {PHRASES[StartupStage.SANDBOX]}."
    )


def test_of_several_the_furthest_is_told_and_only_its_log_is_looked_at() -> None:
    pods = [
        view(status, name=f"qwen-engine-{name}", age=1)
        for name, status in (("a", SANDBOX), ("b", RUNNING), ("c", RUNNING))
    ]
    situation = loading(pods=pods, engines=deployment_status(3, ready=0))
    result = told(situation)
    spoken = "Pod qwen-engine-c starts its engine."
    assert spoken in message(result, ConditionType.READY)
    assert result.requeue is not None
    (look,) = result.requeue.lookups
    assert isinstance(look, LogLookup)
    assert look.pod == "qwen-engine-c"
    again = loading(pods=list(reversed(pods)), engines=deployment_status(3, ready=0), before=result.status)
    assert told(again).status == result.status


def test_a_rollout_tells_where_the_new_engine_is() -> None:
    pods = [
        view(RUNNING, name="qwen-engine-new", age=1, template=CURRENT),
        view(IMAGES, name="qwen-engine-old", age=9, template="earlier"),
    ]
    situation = seen(engines=deployment_status(2, updated=1, ready=1), routers=deployment_status(2), pods=pods)
    result = told(situation)
    assert three(result) == ("True Serving", "True RollingOut", "False NotStalled")
    assert message(result, ConditionType.RECONCILING).endswith("Pod qwen-engine-new starts its engine.")


def test_where_an_engine_serves_one_more_costs_no_look() -> None:
    pods = [view(RUNNING, age=1)]
    situation = seen(engines=deployment_status(2, ready=1), routers=deployment_status(2), pods=pods)
    result = told(situation)
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
def test_whatever_the_order_of_what_is_seen_the_words_go_forward(
    sights: list[tuple[Manifest, list[str], int]],
) -> None:
    """One write a step at most, none back, and no condition's time moves with its words."""
    status: Status | None = None
    written: list[Status] = []
    now = NOW
    for shown, lines, seconds in sights:
        now += timedelta(seconds=seconds)
        situation = replace(start(shown, found=LogText("\n".join(lines)), before=status), now=now)
        status = told(situation).status
        if not written or status != written[-1]:
            written.append(status)
    told_of = [
        next((n for n, step in enumerate(PHRASES) if f" {PHRASES[step]}." in m), -1) for m in map(_ready_of, written)
    ]
    assert told_of == sorted(set(told_of))
    assert len(written) <= len(PHRASES) + 1
    assert len({tuple(c.last_transition_time for c in one.conditions) for one in written}) <= 1


def _ready_of(status: Status) -> str:
    condition = status.condition(ConditionType.READY)
    assert condition
    return condition.message


def test_the_time_of_a_condition_does_not_move_with_its_words() -> None:
    first = told(start(SANDBOX)).status
    later = replace(start(RUNNING, found=LogText(LOGS[Phase.LOADING]), before=first), now=NOW + timedelta(minutes=7))
    second = told(later).status
    assert [c.message for c in first.conditions[:2]] != [c.message for c in second.conditions[:2]]
    assert [c.last_transition_time for c in first.conditions] == [c.last_transition_time for c in second.conditions]
