"""Events as the API server gets them."""

import pytest

from inference_operator.api.resource import resource
from inference_operator.kube.events import Events
from inference_operator.manifest import Manifest
from inference_operator.reconcile.cluster import RejectedError
from inference_operator.status.events import Event
from tests.builders import NOW, inference_deployment
from tests.memory_cluster import MemoryCluster

ABOUT = resource(inference_deployment())
SERVING = Event("Normal", "Serving", "1 of 1 engines serve.")


def written(cluster: MemoryCluster) -> list[Manifest]:
    return list(cluster.live().values())


async def test_a_transition_is_one_object_and_the_next_of_its_kind_a_count_in_it() -> None:
    cluster = MemoryCluster()
    told = Events(cluster, "pod-1", lambda: NOW)
    for _ in range(3):
        await told.write(ABOUT, SERVING)
    (event,) = written(cluster)
    assert (event["type"], event["reason"], event["note"]) == ("Normal", "Serving", "1 of 1 engines serve.")
    assert event["regarding"]["uid"] == ABOUT.uid
    assert event["series"] == {"count": 3, "lastObservedTime": "2026-01-02T03:04:05.000000Z"}
    assert event["metadata"]["namespace"] == "default"


async def test_what_differs_and_who_tells_are_told_apart() -> None:
    cluster = MemoryCluster()
    told = Events(cluster, "pod-1", lambda: NOW)
    await told.write(ABOUT, SERVING)
    await told.write(ABOUT, Event("Normal", "Serving", "2 of 2 engines serve."))
    await Events(cluster, "pod-2", lambda: NOW).write(ABOUT, SERVING)
    assert len(written(cluster)) == 3
    assert all("series" not in event for event in written(cluster))


async def test_an_event_that_cannot_be_written_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cluster = MemoryCluster()
    cluster.fail_next(RejectedError("the namespace is being terminated"))
    told = Events(cluster, "pod-1", lambda: NOW)
    await told.write(ABOUT, SERVING)
    assert written(cluster) == []
    assert "Cannot write the Event Serving of default/qwen" in caplog.text
