"""Lists the Events of one object. Events are listed when a lookup needs them, and never watched."""

from inference_operator.kube.free_gpus import Reader
from inference_operator.manifest import Kind, Manifest
from inference_operator.views.lookups import EventsLookup, EventSummary, ObjectEvents
from inference_operator.views.untrusted_text import one_line

EVENT = Kind("v1", "Event")
"""Only the older API selects by `involvedObject` (Kubernetes 1.36, pkg/apis/core/v1/conversion.go)."""

MOST_EVENTS = 20
"""Events that are kept. Each has another text, because the kubelet counts repeats in one Event."""


async def events_of(reader: Reader, look: EventsLookup) -> ObjectEvents:
    """The latest Events of an object, each text once, the latest first."""
    listed = reader.each(EVENT, namespace=look.namespace, fields=f"involvedObject.uid={look.uid}")
    events = sorted([event async for event in listed], key=_order, reverse=True)
    summaries = dict.fromkeys(EventSummary(str(e.get("reason") or ""), one_line(e.get("message"))) for e in events)
    return ObjectEvents(tuple(summaries)[:MOST_EVENTS])


def _order(event: Manifest) -> tuple[str, str]:
    """Times are mostly whole seconds; the name ends with nanoseconds, which grow (client-go, tools/record/util)."""
    return last_time(event), event["metadata"]["name"]


def last_time(event: Manifest) -> str:
    """When the Event happened last. Reporters fill different fields, all in the same format."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(time) for time in times if time), "")
