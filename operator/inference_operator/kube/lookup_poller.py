"""Runs on-demand lookups (logs, Events, free GPUs), deduplicated across resources and cached for a time."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Protocol

from inference_operator.backoff import exponential_backoff
from inference_operator.controller.cluster import ClusterError, ForbiddenError, NotFoundError, RejectedError
from inference_operator.controller.workqueue import Priority
from inference_operator.kube.lookup_listings import Reader, events_of, free_gpus
from inference_operator.manifest import CLAIM, CONFIG_MAP, HORIZONTAL_POD_AUTOSCALER, Key, Manifest, Ref
from inference_operator.views import lookups
from inference_operator.views.raw import mapping
from inference_operator.views.untrusted_text import log_tail

LOG_LINES = 500
LOG_BYTES = 256 * 1024
"""Limits of a fetched log. The API server cuts bytes at the end, so the limit is more than so many lines have.

When vLLM's engine fails in a process of its own, some 100 lines of the parent's traceback follow the cause.
"""

LOG_HOLDS_SECONDS = 10.0
"""Interval at which the log of a running container is read."""

EVENTS_HOLD_SECONDS = 30.0
"""Interval at which the Events of an object that cannot start are read."""

GPUS_HOLD_SECONDS = 30.0
"""Interval at which free GPUs are counted while a resource needs them."""

CLAIM_HOLDS_SECONDS = 300.0
"""Interval at which a claim is read. Its access modes never change; only another claim of its name has others."""
CONFIG_MAP_HOLDS_SECONDS, WAITED_FOR_HOLDS_SECONDS = 300.0, 15.0
"""Interval at which a user's ConfigMap is read: usually, and while engines wait for its content."""
AUTOSCALERS_HOLD_SECONDS, CONFLICT_HOLDS_SECONDS = 300.0, 30.0
"""Interval at which autoscalers are listed for a resource: usually, and while another one acts on it. With 1,000
resources these are three requests a second."""

FIRST_BACKOFF_SECONDS, LATEST_BACKOFF_SECONDS = 5.0, 300.0
"""Backoff after a lookup that failed, for example because a kubelet does not respond or a right is missing."""

log = logging.getLogger(__name__)


class LookupClient(Reader, Protocol):
    """The requests that lookups need. Every method may raise `ClusterError`."""

    async def read_log(self, look: lookups.LogLookup, *, lines: int, size: int) -> str:
        """The last lines of a container's log."""

    async def get(self, ref: Ref) -> Manifest | None:
        """An object; None if there is none."""


@dataclass(slots=True)
class _Entry:
    look: lookups.Lookup
    keys: set[Key] = field(default_factory=set)
    result: lookups.LookupResult | None = None
    failures: int = 0
    queued: bool = False
    timer: asyncio.TimerHandle | None = None


class LookupPoller:
    """The lookups that resources need, their results, and when to repeat them.

    Args:
        on_result: called with each new result, and with None when no resource needs the lookup any more.
        add: queues a key for a reconcile; called for each key that needs a new result. One that many need, such as the
            free GPUs, does not keep an edit waiting.
    """

    def __init__(
        self,
        client: LookupClient,
        on_result: Callable[[lookups.Lookup, lookups.LookupResult | None], None],
        add: Callable[[Key, Priority], None],
    ) -> None:
        self._client = client
        self._on_result = on_result
        self._add = add
        self._queue: asyncio.Queue[lookups.Lookup] = asyncio.Queue()
        self._by_key: dict[Key, frozenset[lookups.Lookup]] = {}
        self._entries: dict[lookups.Lookup, _Entry] = {}

    def set_lookups(self, key: Key, looks: Iterable[lookups.Lookup]) -> None:
        """Set the lookups that a key needs. Its other lookups end."""
        desired = {look: look for look in looks}
        for look in self._by_key.get(key, frozenset()) - desired.keys():
            self._remove(key, look)
        for look in desired:
            self._put(key, look)
        if desired:
            self._by_key[key] = frozenset(desired)
        else:
            self._by_key.pop(key, None)

    async def work(self) -> None:
        """Run lookups until cancelled; several workers may run at a time."""
        while True:
            entry = self._entries.get(await self._queue.get())
            if entry is None:
                continue
            entry.queued = False
            look = entry.look
            try:
                result = await look_up(self._client, look)
            except Exception:  # a failure of one lookup must not stop the others
                log.exception("Cannot look up %s", look)
                result = lookups.Unavailable("the operator failed to")
            if self._entries.get(look) is entry:
                self._finish(entry, look, result)

    def _put(self, key: Key, look: lookups.Lookup) -> None:
        entry = self._entries.get(look)
        if entry is None:
            entry = self._entries[look] = _Entry(look)
            self._enqueue(entry)
        else:
            stale = _target(entry.look) != _target(look)
            entry.look = look
            if stale:
                self._enqueue(entry)
        entry.keys.add(key)

    def _remove(self, key: Key, look: lookups.Lookup) -> None:
        entry = self._entries[look]
        entry.keys.discard(key)
        if not entry.keys:
            _cancel(entry)
            del self._entries[look]
            self._on_result(look, None)

    def _enqueue(self, entry: _Entry) -> None:
        _cancel(entry)
        if not entry.queued:
            entry.queued = True
            self._queue.put_nowait(entry.look)

    def _finish(self, entry: _Entry, look: lookups.Lookup, result: lookups.LookupResult) -> None:
        """Report a new result, and plan the next run: after its interval, or after a backoff if it failed."""
        entry.failures = entry.failures + 1 if isinstance(result, lookups.Unavailable) else 0
        if result != entry.result:
            entry.result = result
            self._on_result(look, result)
            priority = Priority.NORMAL if len(entry.keys) > 1 else Priority.HIGH
            for key in sorted(entry.keys):
                self._add(key, priority)
        wait = ttl_seconds(look)
        if entry.failures:
            wait = exponential_backoff(entry.failures, first=FIRST_BACKOFF_SECONDS, longest=LATEST_BACKOFF_SECONDS)
        if wait is not None and not entry.queued:
            entry.timer = asyncio.get_running_loop().call_later(wait, self._enqueue, entry)


async def look_up(client: LookupClient, look: lookups.Lookup) -> lookups.LookupResult:
    try:
        return await _read(client, look)
    except ForbiddenError:
        return lookups.Unavailable("the operator has no right to it")
    except NotFoundError:
        return lookups.Unavailable("it is gone")
    except RejectedError:
        return lookups.Unavailable("there is none")
    except ClusterError:
        return lookups.Unavailable("its node does not answer")


async def _read(client: LookupClient, look: lookups.Lookup) -> lookups.LookupResult:
    match look:
        case lookups.LogLookup():
            text = await client.read_log(look, lines=LOG_LINES, size=LOG_BYTES)
            return lookups.LogText(log_tail(text, lines=LOG_LINES, size=LOG_BYTES), whole=not look.running)
        case lookups.EventsLookup():
            return await events_of(client, look)
        case lookups.FreeGpusLookup(resource):
            return await free_gpus(client, resource)
        case lookups.ClaimLookup(namespace, name):
            claim = await client.get(Ref(CLAIM, namespace, name))
            modes = mapping(claim or {}, "spec").get("accessModes") or ()
            return lookups.ClaimView(tuple(map(str, modes))) if claim else lookups.Unavailable("there is none")
        case lookups.ConfigMapLookup(namespace, name, key):
            config_map = await client.get(Ref(CONFIG_MAP, namespace, name))
            return lookups.ConfigMapText(str(mapping(config_map or {}, "data").get(key) or ""))
        case lookups.ForeignAutoscalersLookup():
            listed = client.each(HORIZONTAL_POD_AUTOSCALER, namespace=look.namespace)  # KEDA acts through them too
            foreign = [view async for manifest in listed if (view := lookups.foreign_autoscaler(manifest))]
            return lookups.ForeignAutoscalers(look.seen, tuple(sorted(foreign)))


def ttl_seconds(look: lookups.Lookup) -> float | None:
    """Seconds after which a lookup is repeated; None if its result is final."""
    match look:
        case lookups.LogLookup(running=running):
            return LOG_HOLDS_SECONDS if running else None
        case lookups.EventsLookup():
            return EVENTS_HOLD_SECONDS
        case lookups.FreeGpusLookup():
            return GPUS_HOLD_SECONDS
        case lookups.ClaimLookup():
            return CLAIM_HOLDS_SECONDS
        case lookups.ConfigMapLookup(often=often):
            return WAITED_FOR_HOLDS_SECONDS if often else CONFIG_MAP_HOLDS_SECONDS
        case lookups.ForeignAutoscalersLookup(often=often):
            return CONFLICT_HOLDS_SECONDS if often else AUTOSCALERS_HOLD_SECONDS


def _target(look: lookups.Lookup) -> tuple[object, ...]:
    """The fields of a lookup whose change needs a new run, for example the container's run of a log."""
    return tuple(getattr(look, each.name) for each in fields(look) if not each.compare and each.name != "previous")


def _cancel(entry: _Entry) -> None:
    if entry.timer is not None:
        entry.timer.cancel()
        entry.timer = None
