"""The brake and the turns as pure functions."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from inference_operator.api.rollouts import RolloutSettings
from inference_operator.fleet.rollout_slots import (
    NO_OTHERS,
    TURN_ANNOTATION,
    Fleet,
    FleetState,
    Turn,
    TurnInputs,
    may_begin,
    next_turn,
    recorded_turn,
    stops,
    turn_state,
)
from inference_operator.manifest import Key, Manifest
from inference_operator.objects.pinned import PinUse
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION
from inference_operator.views.workload import WorkloadView
from tests.testing.builders import NOW, deployment_status

CANARY, OTHER = Key("team-a", "canary"), Key("team-b", "qwen")
WITH_CANARY = RolloutSettings(canary=str(CANARY))
TURN = Turn("new", NOW, healthy=True)
ROLLING = WorkloadView(exists=True, observed=True, desired=2, replicas=3, updated=1, ready=2, template="new")
COMPLETE = replace(ROLLING, replicas=2, updated=2)
GAVE_UP = replace(ROLLING, deadline_exceeded=True)
HEALTHY = TurnInputs(NOW)


@given(
    st.builds(Fleet, st.integers(0, 30), st.booleans(), st.booleans()),
    st.integers(1, 20),
    st.sampled_from(["", str(CANARY)]),
)
def test_nobody_begins_beyond_the_limit_beside_one_that_is_worse_or_before_the_canary(
    fleet: Fleet, limit: int, canary: str
) -> None:
    rollouts = RolloutSettings(maxConcurrent=limit, canary=canary)
    for own in (CANARY, OTHER):
        waits = bool(canary) and own == OTHER and not fleet.canary_is_done
        allowed = fleet.rolling < limit and not fleet.is_stopped and not waits
        assert may_begin(fleet, own, rollouts) is allowed


def test_an_operator_of_one_resource_holds_nothing() -> None:
    assert may_begin(NO_OTHERS, OTHER, RolloutSettings())
    assert not may_begin(replace(NO_OTHERS, canary_is_done=False), OTHER, WITH_CANARY)


@pytest.mark.parametrize("text", ["qwen", "a/b/c", "A/b", "a/", "/b"])
def test_a_canary_that_names_no_resource_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="canary"):
        RolloutSettings(canary=text)


@pytest.mark.parametrize(
    ("turn", "workload", "inputs", "state"),
    [
        (TURN, ROLLING, HEALTHY, FleetState.ROLLING),
        (TURN, replace(COMPLETE, observed=False), HEALTHY, FleetState.ROLLING),
        (TURN, replace(COMPLETE, ready=1), HEALTHY, FleetState.ROLLING),
        (TURN, COMPLETE, HEALTHY, FleetState.DONE),
        (TURN, COMPLETE, replace(HEALTHY, is_ready=False), FleetState.FAILED),
        (TURN, ROLLING, replace(HEALTHY, is_stalled=True), FleetState.FAILED),
        (TURN, GAVE_UP, HEALTHY, FleetState.FAILED),
        (TURN, ROLLING, TurnInputs(NOW + 3 * ROLLING.deadline), FleetState.FAILED),
        (TURN, ROLLING, TurnInputs(NOW + 3 * ROLLING.deadline - timedelta(seconds=1)), FleetState.ROLLING),
    ],
)
def test_a_turn_ends_when_all_pods_are_ready_and_fails_when_a_healthy_service_gets_worse(
    turn: Turn, workload: WorkloadView, inputs: TurnInputs, state: FleetState
) -> None:
    assert turn_state(turn, workload, inputs) is state


def test_a_service_that_was_not_healthy_before_stops_nobody() -> None:
    turn, down = replace(TURN, healthy=False), replace(HEALTHY, is_ready=False, is_stalled=True)
    assert turn_state(turn, ROLLING, down) is FleetState.ROLLING
    for workload in (COMPLETE, GAVE_UP):
        assert turn_state(turn, workload, down) is FleetState.DONE


def live(annotation: str, *, template: str = "new", ready: int = 2) -> Manifest:
    """A live Deployment with a turn."""
    return {
        "kind": "Deployment",
        "metadata": {"name": "qwen-router", "generation": 1, "annotations": {TURN_ANNOTATION.key: annotation}},
        "spec": {"replicas": 2, "template": {"metadata": {"annotations": {TEMPLATE_HASH_ANNOTATION: template}}}},
        "status": deployment_status(2, ready=ready),
    }


def test_a_turn_is_read_back_as_it_was_written_and_belongs_to_its_template() -> None:
    assert recorded_turn(live(TURN_ANNOTATION.write(TURN))) == TURN
    assert recorded_turn(live(TURN_ANNOTATION.write(TURN), template="edited")) is None


@pytest.mark.parametrize("text", ["", "{}", "[", '{"template":"new","since":"2026-01-01T00:00:00","healthy":true}'])
def test_a_turn_that_somebody_edited_is_none(text: str) -> None:
    assert recorded_turn(live(text)) is None


def test_a_turn_begins_with_a_setting_and_ends_with_its_pods_or_with_an_edit() -> None:
    assert next_turn(HEALTHY, PinUse.SETTINGS, "new", []) == TURN
    assert next_turn(HEALTHY, PinUse.KEPT, "new", [live(TURN_ANNOTATION.write(TURN), ready=1)]) == TURN
    assert next_turn(HEALTHY, PinUse.KEPT, "new", [live(TURN_ANNOTATION.write(TURN))]) is None
    assert next_turn(HEALTHY, PinUse.BUILT, "edited", [live(TURN_ANNOTATION.write(TURN), ready=1)]) is None
    later = replace(HEALTHY, now=NOW + timedelta(minutes=1), is_ready=False)
    corrected = next_turn(later, PinUse.SETTINGS, "corrected", [live(TURN_ANNOTATION.write(TURN), ready=1)])
    assert corrected == Turn("corrected", later.now, healthy=True)


def test_failures_of_two_namespaces_or_of_the_canary_stop_the_others() -> None:
    a, b, c = Key("team-a", "a"), Key("team-a", "b"), Key("team-b", "c")
    assert [stops(failed, c, RolloutSettings()) for failed in ({a}, {a, b}, {a, Key("team-c", "d")})] == [
        False,
        False,
        True,
    ]
    assert stops({a, b}, Key("team-a", "e"), RolloutSettings())
    assert stops({a}, c, RolloutSettings(canary="team-a/a"))
