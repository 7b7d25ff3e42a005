"""The event recorder: one Event per transition; repeats are counted in its `series`. Best effort, in the background."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b

from inference_operator.api.resource import AnyResource
from inference_operator.controller.cluster import FIELD_MANAGER, Cluster, ClusterError, NotLeaderError
from inference_operator.manifest import Kind, Manifest, Ref
from inference_operator.status.events import Event

EVENT = Kind("events.k8s.io/v1", "Event")

REMEMBERED = 4096
"""Events whose count is kept. An Event that repeats after this many others starts a new count."""
MOST_WAITING = 1024
"""Events that wait to be written. When the API server is slower than the transitions, the others are dropped."""

log = logging.getLogger(__name__)


class Events:
    def __init__(self, cluster: Cluster, instance: str, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._instance = instance
        self._now = now
        self._queue: asyncio.Queue[tuple[AnyResource, Event]] = asyncio.Queue(MOST_WAITING)
        self._first: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """The first time and the count of an Event, by its name."""

    def record(self, resource: AnyResource, events: Sequence[Event]) -> None:
        for event in events:
            if not self._queue.full():
                self._queue.put_nowait((resource, event))

    async def work(self) -> None:
        while True:
            await self.write(*await self._queue.get())

    async def write(self, resource: AnyResource, event: Event) -> None:
        """Write one Event or increase its count; a failure is logged."""
        body = self._body(resource, event)
        try:
            await self._cluster.apply(Ref.of(body), body, force=True)
        except (ClusterError, NotLeaderError) as error:
            log.warning("Cannot write the Event %s of %s: %s", event.reason, resource.key, error)

    def _body(self, resource: AnyResource, event: Event) -> Manifest:
        key = resource.key
        identity = f"{self._instance} {resource.uid} {event.kind} {event.reason} {event.note}"
        name = f"{key.name}.{blake2b(identity.encode(), digest_size=8).hexdigest()}"
        moment = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        first, count = self._first.pop(name, (moment, 0))
        self._first[name] = (first, count + 1)
        if len(self._first) > REMEMBERED:
            self._first.popitem(last=False)
        series = {"series": {"count": count + 1, "lastObservedTime": moment}} if count else {}
        regarding = {"apiVersion": key.kind.api_version, "kind": key.kind.name, "uid": resource.uid}
        return Ref(EVENT, key.namespace, name).manifest(
            {},
            eventTime=first,
            reportingController=f"inference-operator.dev/{FIELD_MANAGER}",
            reportingInstance=self._instance,
            action="Reconcile",
            type=event.kind,
            reason=event.reason,
            note=event.note,
            regarding={**regarding, "namespace": key.namespace, "name": key.name},
            **series,
        )
