"""A pod that waits for its volumes: when its Events are read, and what is told of them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.diagnosis.pending_causes import VOLUME_PATIENCE
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.lookups import EventsLookup, EventSummary, LookupResult, ObjectEvents, Unavailable
from tests.status.situations import loading, message, starting, three, told, view
from tests.testing.builders import NOW

POD = view(starting(), age=1)
LOOK = EventsLookup("default", POD.name, POD.uid)
GENERAL = EventSummary("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[model]: timed out waiting")
SET_UP = EventSummary("FailedMount", 'MountVolume.SetUp failed for volume "nfs" : mount failed: exit status 32')
MULTI_ATTACH = 'Multi-Attach error for volume "pvc-1" '
ELSEWHERE = (
    "Pod qwen-engine-a does not run: its volume `pvc-1` is in use on another node{}, and only one node at a time"
)


def after(seconds: float, found: LookupResult | None = None) -> Inputs:
    situation = replace(loading(pods=[POD]), now=NOW + timedelta(seconds=seconds))
    return replace(situation, lookups={LOOK: found}) if found else situation


LONG = VOLUME_PATIENCE.total_seconds()


def test_a_usual_start_costs_no_request() -> None:
    again = told(after(15)).requeue
    assert again is not None
    assert (again.lookups, again.seconds) == ((), LONG - 15)


def test_after_a_while_the_events_are_wanted() -> None:
    result = told(after(LONG))
    assert three(result) == ("False Starting", "True Starting", "False NotStalled")
    assert result.requeue is not None
    assert result.requeue.lookups == (LOOK,)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([GENERAL], f"a volume cannot be mounted: {GENERAL.message}"),
        ([GENERAL, SET_UP], f"a volume cannot be mounted: {SET_UP.message}"),
        (
            [
                SET_UP,
                EventSummary("FailedAttachVolume", 'AttachVolume.Attach failed for volume "pvc-1" : no such disk'),
            ],
            'a volume cannot be mounted: AttachVolume.Attach failed for volume "pvc-1" : no such disk',
        ),
    ],
)
def test_what_is_told_of_a_volume_is_lifted(events: list[EventSummary], words: str) -> None:
    result = told(after(LONG, ObjectEvents(tuple(events))))
    assert three(result) == ("False VolumeUnavailable", "True VolumeUnavailable", "False NotStalled")
    assert message(result, ConditionType.RECONCILING) == f"Pod qwen-engine-a does not run: {words}"
    assert result.requeue is not None
    assert LOOK in result.requeue.lookups


@pytest.mark.parametrize(
    ("said", "users"),
    [
        ("Volume is already exclusively attached to one node and can't be attached to another", ""),
        ("Volume is already used by pod(s) other, another", " by pod(s) other, another"),
        (
            "Volume is already used by pod(s) other and 2 pod(s) in different namespaces",
            " by pod(s) other and 2 pod(s) in different namespaces",
        ),
        ("Volume is already used by 2 pod(s) in different namespaces", " by 2 pod(s) in different namespaces"),
    ],
)
def test_a_claim_that_is_in_use_on_another_node_is_told_plainly(said: str, users: str) -> None:
    found = ObjectEvents((GENERAL, EventSummary("FailedAttachVolume", MULTI_ATTACH + said)))
    words = message(told(after(LONG, found)), ConditionType.RECONCILING)
    assert words.startswith(ELSEWHERE.format(users))
    assert words.endswith("or use a claim of the access mode ReadOnlyMany or ReadWriteMany.")


@pytest.mark.parametrize(
    "found",
    [
        ObjectEvents(()),
        ObjectEvents((EventSummary("Scheduled", "placed"),)),
        Unavailable("the operator has no right to it"),
    ],
)
def test_where_nothing_is_told_of_a_volume_nothing_is_guessed(found: LookupResult) -> None:
    assert three(told(after(LONG, found))) == ("False Starting", "True Starting", "False NotStalled")


def test_it_stalls_like_every_problem_that_somebody_must_cure() -> None:
    found = ObjectEvents((SET_UP,))
    situation = after(LONG, found)
    later = replace(
        situation,
        resource=replace(situation.resource, status=told(situation).status),
        now=NOW + timedelta(minutes=40),
    )
    assert three(told(later)) == ("False VolumeUnavailable", "False Settled", "True ProgressDeadlineExceeded")
    assert "mount failed" in message(told(later), ConditionType.STALLED)
