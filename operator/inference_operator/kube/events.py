"""Writes Events: each transition one object, and the same one again a count in it. Best effort, beside the work."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b

from inference_operator.api.resource import Resource
from inference_operator.manifest import API_VERSION, KIND, Kind, Manifest, Ref
from inference_operator.reconcile.cluster import FIELD_MANAGER, Cluster, ClusterError
from inference_operator.status.events import Event

EVENT = Kind("events.k8s.io/v1", "Event")

REMEMBERED = 4096
"""Events that are counted on; who comes again later than so many others begins anew."""
MOST_WAITING = 1024
"""Events that wait to be written; where the API server is slower than what happens, the rest is not told."""

log = logging.getLogger(__name__)


class Events:
    """Tells of transitions as Events of the InferenceDeployment.

    Args:
        cluster: where they are written.
        instance: the name of this process, which tells its Events from those of others.
        now: the time.
    """

    def __init__(self, cluster: Cluster, instance: str, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._instance = instance
        self._now = now
        self._queue: asyncio.Queue[tuple[Resource, Event]] = asyncio.Queue(MOST_WAITING)
        self._first: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """When an Event happened first, and how often it has, by its name."""

    def tell(self, about: Resource, events: Sequence[Event]) -> None:
        """Write these when there is time."""
        for event in events:
            if not self._queue.full():
                self._queue.put_nowait((about, event))

    async def work(self) -> None:
        """Write until cancelled."""
        while True:
            await self.write(*await self._queue.get())

    async def write(self, about: Resource, event: Event) -> None:
        """Write one Event, or count it once more; one that cannot be written is logged."""
        body = self._body(about, event)
        try:
            await self._cluster.apply(Ref.of(body), body, force=True)
        except ClusterError as error:
            log.warning("Cannot write the Event %s of %s: %s", event.reason, about.key, error)

    def _body(self, about: Resource, event: Event) -> Manifest:
        key = about.key
        told = f"{self._instance} {about.uid} {event.kind} {event.reason} {event.note}"
        name = f"{key.name}.{blake2b(told.encode(), digest_size=8).hexdigest()}"
        moment = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        first, count = self._first.pop(name, (moment, 0))
        self._first[name] = (first, count + 1)
        if len(self._first) > REMEMBERED:
            self._first.popitem(last=False)
        again = {"series": {"count": count + 1, "lastObservedTime": moment}} if count else {}
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.name,
            "metadata": {"name": name, "namespace": key.namespace},
            "eventTime": first,
            "reportingController": f"inference-operator.dev/{FIELD_MANAGER}",
            "reportingInstance": self._instance,
            "action": "Reconcile",
            "type": event.kind,
            "reason": event.reason,
            "note": event.note,
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "namespace": key.namespace,
                "name": key.name,
                "uid": about.uid,
            },
            **again,
        }
