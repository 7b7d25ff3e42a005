"""Carries out what reports want looked up: each thing once for all who want it, and not again while it holds."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from inference_operator.kube.gpus import Reader, free_gpus
from inference_operator.kube.told import told_of
from inference_operator.manifest import Key
from inference_operator.observed.look import EventsOf, Found, FreeGpus, Log, LogTail, Look, Unseen
from inference_operator.observed.redact import redacted
from inference_operator.reconcile.cluster import ClusterError, ForbiddenError, NotFoundError, RejectedError

LOG_LINES = 500
LOG_BYTES = 256 * 1024
"""What is fetched of a log; bytes are cut at the end, so they are more than such lines have.

Where vLLM's engine fails in a process of its own, some 100 lines of its parent's traceback follow the cause.
"""
KEPT_CHARACTERS = 64 * 1024
"""What is kept of it, from its end."""

LOG_HOLDS_SECONDS = 10.0
"""How often the log of a container that still writes is read."""

EVENTS_HOLD_SECONDS = 30.0
"""How often the Events of what cannot start are read."""

GPUS_HOLD_SECONDS = 30.0
"""How often free GPUs are counted while somebody wants to know."""

FIRST_BACKOFF_SECONDS, LATEST_BACKOFF_SECONDS = 5.0, 300.0
"""Between two attempts at what could not be seen: a kubelet that does not answer, a right that is missing."""
_MOST_DOUBLINGS = 6


log = logging.getLogger(__name__)


class Sight(Reader, Protocol):
    """What looks ask of a cluster. Every method may raise `ClusterError`."""

    async def read_log(self, look: LogTail, *, lines: int, size: int) -> str:
        """The last lines of a container's log."""


@dataclass(slots=True)
class _Followed:
    """A look that somebody wants."""

    look: Look
    """As it was wanted last."""
    keys: set[Key] = field(default_factory=set)
    found: Found | None = None
    failures: int = 0
    queued: bool = False
    timer: asyncio.TimerHandle | None = None


class Looks:
    """What is wanted, what was found of it, and when to look again.

    Args:
        sight: what can be looked up.
        tell: is told of everything found that is new, and of None when nobody wants it any more.
        ask: is asked for a round for each key that wants what has been found.
    """

    def __init__(self, sight: Sight, tell: Callable[[Look, Found | None], None], ask: Callable[[Key], None]) -> None:
        self._sight = sight
        self._tell = tell
        self._ask = ask
        self._queue: asyncio.Queue[Look] = asyncio.Queue()
        self._wanted: dict[Key, frozenset[Look]] = {}
        self._followed: dict[Look, _Followed] = {}

    def want(self, key: Key, looks: Iterable[Look]) -> None:
        """Keep these looked up for a key from now on, and what it wanted before no longer."""
        wanted = {look: look for look in looks}
        for look in self._wanted.get(key, frozenset()) - wanted.keys():
            self._leave(key, look)
        for look in wanted:
            self._follow(key, look)
        if wanted:
            self._wanted[key] = frozenset(wanted)
        else:
            self._wanted.pop(key, None)

    async def work(self) -> None:
        """Look until cancelled; several workers may do so at a time."""
        while True:
            followed = self._followed.get(await self._queue.get())
            if followed is None:
                continue
            followed.queued = False
            meant = followed.look
            try:
                found = await look_up(self._sight, meant)
            except Exception:  # what goes wrong with one look must not stop the others
                log.exception("Cannot look at %s", meant)
                found = Unseen("the operator failed to")
            if self._followed.get(meant) is followed:
                self._note(followed, meant, found)

    def _follow(self, key: Key, look: Look) -> None:
        followed = self._followed.get(look)
        if followed is None:
            followed = self._followed[look] = _Followed(look)
            self._enqueue(followed)
        else:
            stale = _aim(followed.look) != _aim(look)
            followed.look = look
            if stale:
                self._enqueue(followed)
        followed.keys.add(key)

    def _leave(self, key: Key, look: Look) -> None:
        followed = self._followed[look]
        followed.keys.discard(key)
        if not followed.keys:
            _cancel(followed)
            del self._followed[look]
            self._tell(look, None)

    def _enqueue(self, followed: _Followed) -> None:
        _cancel(followed)
        if not followed.queued:
            followed.queued = True
            self._queue.put_nowait(followed.look)

    def _note(self, followed: _Followed, meant: Look, found: Found) -> None:
        """Tell what is new, and come back when it no longer holds; what could not be seen, after a backoff."""
        followed.failures = followed.failures + 1 if isinstance(found, Unseen) else 0
        if found != followed.found:
            followed.found = found
            self._tell(meant, found)
            for key in sorted(followed.keys):
                self._ask(key)
        wait = _backoff(followed.failures) if followed.failures else holds_seconds(meant)
        if wait is not None and not followed.queued:
            followed.timer = asyncio.get_running_loop().call_later(wait, self._enqueue, followed)


async def look_up(sight: Sight, look: Look) -> Found:
    """Carry out one look; what cannot be seen is an answer too."""
    try:
        match look:
            case LogTail():
                text = await sight.read_log(look, lines=LOG_LINES, size=LOG_BYTES)
                return Log(redacted(text)[-KEPT_CHARACTERS:])
            case EventsOf():
                return await told_of(sight, look)
            case FreeGpus(resource):
                return await free_gpus(sight, resource)
    except ForbiddenError:
        return Unseen("the operator has no right to it")
    except NotFoundError:
        return Unseen("it is gone")
    except RejectedError:
        return Unseen("there is none")
    except ClusterError:
        return Unseen("its node does not answer")


def holds_seconds(look: Look) -> float | None:
    """How long what a look has found holds; None: for ever."""
    match look:
        case LogTail(running=running):
            return LOG_HOLDS_SECONDS if running else None
        case EventsOf():
            return EVENTS_HOLD_SECONDS
        case FreeGpus():
            return GPUS_HOLD_SECONDS


def _aim(look: Look) -> tuple[object, ...]:
    """What makes a look at the same thing another look; a run stays the same when the next one begins."""
    match look:
        case LogTail(run=run, running=running):
            return (run, running)
        case EventsOf() | FreeGpus():
            return ()


def _cancel(followed: _Followed) -> None:
    if followed.timer is not None:
        followed.timer.cancel()
        followed.timer = None


def _backoff(failures: int) -> float:
    return min(FIRST_BACKOFF_SECONDS * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), LATEST_BACKOFF_SECONDS)
