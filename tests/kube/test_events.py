"""The Events that are written to the API server."""

import pytest

from inference_operator.api.resource import resource
from inference_operator.controller.cluster import RejectedError
from inference_operator.kube.events import Events
from inference_operator.manifest import Manifest
from inference_operator.status.events import Event
from tests.testing.builders import NOW, inference_deployment
from tests.testing.memory_cluster import MemoryCluster

ABOUT = resource(inference_deployment())
SERVING = Event("Normal", "Serving", "1 of 1 engine is ready.")


def written(cluster: MemoryCluster) -> list[Manifest]:
    return list(cluster.live().values())


async def test_a_repeated_transition_is_counted_in_its_first_event() -> None:
    cluster = MemoryCluster()
    told = Events(cluster, "pod-1", lambda: NOW)
    for _ in range(3):
        await told.write(ABOUT, SERVING)
    (event,) = written(cluster)
    assert (event["type"], event["reason"], event["note"]) == ("Normal", "Serving", "1 of 1 engine is ready.")
    assert event["regarding"]["uid"] == ABOUT.uid
    assert event["series"] == {"count": 3, "lastObservedTime": "2026-01-02T03:04:05.000000Z"}
    assert event["metadata"]["namespace"] == "default"


async def test_events_with_another_note_or_from_another_process_are_separate_objects() -> None:
    cluster = MemoryCluster()
    told = Events(cluster, "pod-1", lambda: NOW)
    await told.write(ABOUT, SERVING)
    await told.write(ABOUT, Event("Normal", "Serving", "2 of 2 engines are ready."))
    await Events(cluster, "pod-2", lambda: NOW).write(ABOUT, SERVING)
    assert len(written(cluster)) == 3
    assert all("series" not in event for event in written(cluster))


async def test_a_failed_write_of_an_event_raises_no_exception(caplog: pytest.LogCaptureFixture) -> None:
    cluster = MemoryCluster()
    cluster.fail_next(RejectedError("the namespace is being terminated"))
    told = Events(cluster, "pod-1", lambda: NOW)
    await told.write(ABOUT, SERVING)
    assert written(cluster) == []
    assert "Cannot write the Event Serving of default/qwen" in caplog.text
