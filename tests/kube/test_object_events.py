"""The Events of a pod: the latest first, without counts and secrets."""

from inference_operator.kube.lookup_listings import EVENT, MOST_EVENTS
from inference_operator.kube.lookup_poller import look_up
from inference_operator.manifest import Manifest, Ref
from inference_operator.views.lookups import EventsLookup, EventSummary, ObjectEvents
from tests.testing.memory_cluster import MemoryCluster, Request

LOOK = EventsLookup("default", "engine-a", "u")


def event(name: str, reason: str, message: str, *, uid: str = "u", **more: object) -> Manifest:
    meta = {"name": name, "namespace": "default"}
    about = {"kind": "Pod", "name": "engine-a", "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": meta,
        "involvedObject": about,
        "reason": reason,
        "message": message,
        **more,
    }


def cluster_of(*events: Manifest) -> MemoryCluster:
    cluster = MemoryCluster()
    for one in events:
        cluster.apply_as("kubelet", one)
    return cluster


async def test_the_latest_event_comes_first_whatever_time_field_its_reporter_fills() -> None:
    cluster = cluster_of(
        event("a", "Scheduled", "placed", eventTime="2026-01-02T03:04:05.000000Z"),
        event("b", "FailedMount", "no\nway", lastTimestamp="2026-01-02T03:06:05Z"),
        event(
            "c",
            "Pulled",
            "there",
            lastTimestamp="2026-01-02T03:05:05Z",
            series={"lastObservedTime": "2026-01-02T03:07:05Z"},
        ),
        event("d", "FailedMount", "of another", uid="v"),
        event("e", "Odd", ""),
    )
    found = await look_up(cluster, LOOK)
    assert found == ObjectEvents(
        (
            EventSummary("Pulled", "there"),
            EventSummary("FailedMount", "no way"),
            EventSummary("Scheduled", "placed"),
            EventSummary("Odd", ""),
        )
    )
    assert cluster.reads == [Request("list", Ref(EVENT, "default", "involvedObject.uid=u"))]


async def test_two_events_of_the_same_second_are_ordered_by_name_with_the_later_name_first() -> None:
    """Events of a kubelet 1.35: the model's image is present and the engine's image is absent."""
    second = {"lastTimestamp": "2026-01-02T03:06:05Z"}
    cluster = cluster_of(
        event("engine-a.18a1", "Scheduled", "placed", **second),
        event("engine-a.18a2", "Pulled", "the model", **second),
        event("engine-a.18a3", "Pulling", "the engine", **second),
    )
    found = await look_up(cluster, LOOK)
    assert isinstance(found, ObjectEvents)
    assert [one.reason for one in found.events] == ["Pulling", "Pulled", "Scheduled"]


async def test_a_repeated_event_does_not_change_the_result() -> None:
    once = [event("a", "FailedMount", "no", count=1, lastTimestamp="2026-01-02T03:06:05Z")]
    again = [
        event("a", "FailedMount", "no", count=7, lastTimestamp="2026-01-02T03:09:05Z"),
        event("b", "FailedMount", "no"),
    ]
    assert await look_up(cluster_of(*once), LOOK) == await look_up(cluster_of(*again), LOOK)


async def test_the_events_of_an_object_are_bounded_and_contain_no_secrets() -> None:
    events = [event(f"e{number}", "FailedMount", f"{number} token=abc") for number in range(3 * MOST_EVENTS)]
    found = await look_up(cluster_of(*events), LOOK)
    assert isinstance(found, ObjectEvents)
    assert len(found.events) == MOST_EVENTS
    assert all(one.message.endswith("token=[hidden]") for one in found.events)
