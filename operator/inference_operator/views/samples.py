"""What engines and routers tell about their work, and for how long an engine has had work and not got on with it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One look at an engine's metrics."""

    model: str
    """The name under which it serves the model."""
    running: int
    """Requests that it computes."""
    waiting: int
    """Requests that it has accepted and not begun."""
    progress: tuple[float, ...]
    """Numbers of which at least one moves with each step of the engine; only ever compared."""
    kv_cache_tokens: int | None = None
    """Tokens that its KV cache holds, as it tells itself; None where it does not."""


@dataclass(frozen=True, slots=True)
class RouterSample:
    """One look at a router."""

    sessions: Mapping[str, int]
    """Requests that are with an engine, by the engine's IP address."""
    queued: int
    """Requests that wait for a free engine."""
    held: int
    """Requests that wait for any engine at all."""


def together(samples: Iterable[RouterSample]) -> RouterSample:
    """Several routers as one.

    Examples:
        >>> together([RouterSample({"10.0.0.1": 2}, 1, 0), RouterSample({"10.0.0.1": 3}, 0, 4)])
        RouterSample(sessions={'10.0.0.1': 5}, queued=1, held=4)
    """
    known = list(samples)
    sessions: Counter[str] = Counter()
    for sample in known:
        sessions.update(sample.sessions)
    return RouterSample(dict(sessions), sum(s.queued for s in known), sum(s.held for s in known))


class Asked(Enum):
    """Whether an engine that seems to stand still has been sent a request of our own, and what came of it."""

    NOT = "not asked"
    WAITING = "no answer"
    UNFIT = "this engine does not take such a request"


@dataclass(frozen=True, slots=True)
class Watched:
    """An engine over time.

    Times are seconds of a clock that no one sets. Only the difference of two means anything.
    """

    sample: EngineSample
    sessions: int
    """Requests that routers have with it; as far as is known."""
    at: float
    """When the sample was taken."""
    since: float | None = None
    """When the first sample was taken of the standstill that lasts until `at`; None while it gets on or has no work."""
    asked: Asked = Asked.NOT
    asked_at: float = 0.0
    """When the question was sent."""

    @property
    def outstanding(self) -> int:
        """Requests that it has, as far as anybody knows."""
        return max(self.sample.running + self.sample.waiting, self.sessions)

    @property
    def still_seconds(self) -> float:
        """For how long it has had work and made no progress."""
        return 0.0 if self.since is None else self.at - self.since

    @property
    def unanswered_seconds(self) -> float:
        """For how long it has owed an answer to our own request."""
        return self.at - self.asked_at if self.asked is Asked.WAITING else 0.0

    def asked_now(self) -> "Watched":
        """The same engine, with our own request on its way."""
        return replace(self, asked=Asked.WAITING, asked_at=self.at)

    def alive(self, at: float) -> "Watched":
        """The same engine after an answer: whatever its metrics show, it computes, and a standstill begins anew."""
        return replace(self, since=at, asked=Asked.NOT)


def watched(before: Watched | None, sample: EngineSample, *, sessions: int, at: float, longest_gap: float) -> Watched:
    """An engine after one more look.

    Args:
        before: the engine after the look before; None if there is none.
        sample: what the engine tells now.
        sessions: requests that routers have with it.
        at: when that was, in seconds.
        longest_gap: seconds between two looks above which what lies between them is not known.

    Examples:
        >>> busy = EngineSample("m", running=1, waiting=0, progress=(7,))
        >>> first = watched(None, busy, sessions=1, at=100, longest_gap=60)
        >>> watched(first, busy, sessions=1, at=115, longest_gap=60).still_seconds
        15
        >>> watched(first, replace(busy, progress=(8,)), sessions=1, at=115, longest_gap=60).still_seconds
        0
    """
    now = Watched(sample, sessions, at)
    if not now.outstanding:
        return now
    if before is None or before.since is None or at - before.at > longest_gap:
        return replace(now, since=at)
    if sample.progress != before.sample.progress:
        return replace(now, since=at)
    return replace(now, since=before.since, asked=before.asked, asked_at=before.asked_at)


@dataclass(frozen=True, slots=True)
class Samples:
    """What was seen last of the pods of one InferenceDeployment, by the pods' uids; what is missing is not known."""

    engines: Mapping[str, Watched] = field(default_factory=dict)
    routers: Mapping[str, RouterSample] = field(default_factory=dict)
