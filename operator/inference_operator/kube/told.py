"""What Kubernetes tells about an object in Events only: they are listed when they are wanted, and never watched."""

from inference_operator.kube.gpus import Reader
from inference_operator.manifest import Kind, Manifest
from inference_operator.observed.look import EventsOf, Told, ToldEvent
from inference_operator.observed.pod import sentence

EVENT = Kind("v1", "Event")
"""Only the older API selects by what an Event is about (Kubernetes 1.36, pkg/apis/core/v1/conversion.go)."""

MOST_EVENTS = 20
"""What is kept of them: kinds of Events, since the kubelet counts what it says again."""


async def told_of(reader: Reader, look: EventsOf) -> Told:
    """The latest Events of an object, each once."""
    listed = reader.each(EVENT, namespace=look.namespace, fields=f"involvedObject.uid={look.uid}")
    events = sorted([event async for event in listed], key=_order, reverse=True)
    told = dict.fromkeys(ToldEvent(str(e.get("reason") or ""), sentence(e.get("message"))) for e in events)
    return Told(tuple(told)[:MOST_EVENTS])


def _order(event: Manifest) -> tuple[str, str]:
    """Most moments are whole seconds; the name ends with nanoseconds, which grow (client-go, tools/record/util)."""
    return _moment(event), event["metadata"]["name"]


def _moment(event: Manifest) -> str:
    """When it happened last: reporters differ in the field that they fill, and all write the same form."""
    series = event.get("series") or {}
    moments = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(moment) for moment in moments if moment), "")
