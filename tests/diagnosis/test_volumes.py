"""A pod that waits for its volumes: when its Events are looked up, and which cause they give."""

from dataclasses import replace
from datetime import timedelta

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.diagnosis.component import DiagnosisInputs
from inference_operator.diagnosis.diagnoses import volume_diagnosis
from inference_operator.diagnosis.pending_causes import VOLUME_LOOKUP_AFTER
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.lookups import EventsLookup, EventSummary, LookupResult, ObjectEvents, Unavailable
from tests.status.situations import loading, main_conditions, message, observed, reported, starting, view
from tests.testing.builders import NOW, deployment_status

POD = view(starting(), age=1)
LOOK = EventsLookup("default", POD.name, POD.uid)
GENERAL = EventSummary("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[model]: timed out waiting")
SET_UP = EventSummary("FailedMount", 'MountVolume.SetUp failed for volume "nfs" : mount failed: exit status 32')
MULTI_ATTACH = 'Multi-Attach error for volume "pvc-1" '
ELSEWHERE = (
    "Pod qwen-engine-a does not run: its volume `pvc-1` is in use on another node{}, and only one node at a time"
)


def after(seconds: float, lookup_result: LookupResult | None = None) -> Inputs:
    situation = replace(loading(pods=[POD]), now=NOW + timedelta(seconds=seconds))
    return replace(situation, lookups={LOOK: lookup_result}) if lookup_result else situation


LONG = VOLUME_LOOKUP_AFTER.total_seconds()


def test_events_of_a_pod_that_waits_for_volumes_are_not_looked_up_at_first() -> None:
    again = reported(after(15)).requeue
    assert again is not None
    assert (again.lookups, again.seconds) == ((), LONG - 15)


def test_events_of_a_pod_that_waits_for_volumes_are_looked_up_after_a_delay() -> None:
    result = reported(after(LONG))
    assert main_conditions(result) == ("False Starting", "True Starting", "False NotStalled")
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
def test_an_event_about_a_failed_mount_becomes_the_cause_in_the_status(events: list[EventSummary], words: str) -> None:
    result = reported(after(LONG, ObjectEvents(tuple(events))))
    assert main_conditions(result) == ("False VolumeUnavailable", "True VolumeUnavailable", "False NotStalled")
    assert message(result, ConditionType.RECONCILING) == f"Pod qwen-engine-a does not run: {words}"
    assert result.requeue is not None
    assert LOOK in result.requeue.lookups


@pytest.mark.parametrize(
    ("detail", "users"),
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
def test_a_volume_in_use_on_another_node_is_named_with_the_pods_that_use_it(detail: str, users: str) -> None:
    lookup_result = ObjectEvents((GENERAL, EventSummary("FailedAttachVolume", MULTI_ATTACH + detail)))
    words = message(reported(after(LONG, lookup_result)), ConditionType.RECONCILING)
    assert words.startswith(ELSEWHERE.format(users))
    assert words.endswith("or use a claim of the access mode ReadOnlyMany or ReadWriteMany.")


@pytest.mark.parametrize(
    "lookup_result",
    [
        ObjectEvents(()),
        ObjectEvents((EventSummary("Scheduled", "placed"),)),
        Unavailable("the operator has no right to it"),
    ],
)
def test_without_an_event_about_volumes_the_pod_is_starting(lookup_result: LookupResult) -> None:
    assert main_conditions(reported(after(LONG, lookup_result))) == (
        "False Starting",
        "True Starting",
        "False NotStalled",
    )


def test_an_unavailable_volume_exceeds_the_progress_deadline() -> None:
    lookup_result = ObjectEvents((SET_UP,))
    situation = after(LONG, lookup_result)
    later = replace(
        situation,
        resource=replace(situation.resource, status=reported(situation).status),
        now=NOW + timedelta(minutes=40),
    )
    assert main_conditions(reported(later)) == (
        "False VolumeUnavailable",
        "False Settled",
        "True ProgressDeadlineExceeded",
    )
    assert "mount failed" in message(reported(later), ConditionType.STALLED)


NO_SECRET = EventSummary("FailedMount", 'MountVolume.SetUp failed for volume "keys" : secret "chat-keys" not found')
NO_ENTRY = EventSummary("FailedMount", 'SetUp failed for volume "keys" : references non-existent secret key: keys')


def with_stuck_router(event: EventSummary, *, ready: int) -> Inputs:
    """A resource of which a router pod waits for its Secret; its engine serves."""
    router = view(starting(), name="qwen-router-a", component=ROUTER, age=1)
    situation = observed(engines=deployment_status(1), routers=deployment_status(2, ready=ready), pods=[router])
    lookup = EventsLookup("default", router.name, router.uid)
    return replace(situation, now=NOW + timedelta(seconds=LONG), lookups={lookup: ObjectEvents((event,))})


@pytest.mark.parametrize(
    ("event", "cure"),
    [
        (NO_SECRET, "Create the Secret `chat-keys` in this namespace."),
        (NO_ENTRY, "Add the entry `keys` to the Secret of this volume."),
    ],
)
def test_a_missing_secret_of_routers_is_named_with_its_cure_where_no_router_is_ready(
    event: EventSummary, cure: str
) -> None:
    result = reported(with_stuck_router(event, ready=0))
    available = result.status.condition(ConditionType.ROUTER_AVAILABLE)
    assert available is not None
    assert (available.status, available.reason) == ("False", "VolumeUnavailable")
    assert available.message == "No router is ready."
    assert result.status.message.startswith("Pod qwen-router-a does not run: a volume cannot be")
    assert result.status.message.endswith(cure)


def test_a_missing_secret_of_routers_is_named_while_older_routers_serve() -> None:
    result = reported(with_stuck_router(NO_SECRET, ready=2))
    assert main_conditions(result)[0] == "True Serving"
    said = message(result, ConditionType.ROUTER_AVAILABLE)
    assert said.startswith("2 of 2 routers are ready. Pod qwen-router-a does not run:")
    assert "Create the Secret `chat-keys`" in said


def test_the_events_of_a_router_that_waits_for_volumes_are_looked_up() -> None:
    situation = replace(with_stuck_router(NO_SECRET, ready=0), lookups={})
    again = reported(situation).requeue
    assert again is not None
    assert [look.name for look in again.lookups if isinstance(look, EventsLookup)] == ["qwen-router-a"]


@pytest.mark.parametrize(("claim", "node", "found"), [("models", "b", True), ("models", "a", False), ("", "b", False)])
def test_an_engine_on_another_node_than_its_one_node_claim_is_reported_at_once(
    claim: str, node: str, *, found: bool
) -> None:
    first = replace(POD, name="qwen-engine-first", ready=True, start=None, node="a")
    request = DiagnosisInputs("default", {}, {}, read_logs=False, nodes_visible=True, now=NOW, one_node_claim=claim)
    diagnosis = volume_diagnosis([first, replace(POD, node=node)], request).diagnosis
    assert (diagnosis is not None) is found
    if diagnosis:
        said = f"Pod {POD.name} on node b cannot mount the claim models: it is ReadWriteOnce, and node a uses it."
        assert diagnosis.message.startswith(said)
