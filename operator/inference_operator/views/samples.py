"""Samples of what pods tell: metrics, loaded adapters, and how long an engine with requests has made no progress."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf

from inference_operator.views.raw import mapping

REPORT_PATH = "/adapters"
"""Path on the port of the program that loads adapters."""

MOST_REPORTED = 256
"""Adapters of a report that are read."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram of Prometheus: how many observations are at most each bound."""

    bounds: tuple[float, ...]
    """Ascending; the last one is infinite."""
    counts: tuple[float, ...]
    """Cumulative: each bucket contains the one before."""
    total: float
    """Sum of all observations."""

    def part_within(self, limit: float) -> float:
        """The part of the observations that are at most `limit`; linear in a bucket, as in PromQL."""
        below, count = 0.0, 0.0
        for bound, counted in zip(self.bounds, self.counts, strict=True):
            if bound > limit:
                share = (limit - below) / (bound - below) if bound < inf else 0.0
                return (count + share * (counted - count)) / max(self.counts[-1], 1.0)
            below, count = bound, counted
        return 1.0

    @property
    def spread(self) -> float:
        """The variance divided by the square of the mean; observations are evenly spread in a bucket, as above."""
        below, count, total, squares = 0.0, 0.0, 0.0, 0.0
        for bound, counted in zip(self.bounds, self.counts, strict=True):
            end = bound if bound < inf else below
            total += (counted - count) * (below + end) / 2
            squares += (counted - count) * (below**2 + below * end + end**2) / 3
            below, count = end, counted
        return max(0.0, squares * count / total**2 - 1) if total > 0 else 0.0


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of the requests that an engine has finished since its start."""

    requests: float
    prompt: float
    answer: float
    looked_up: float = 0.0
    """Tokens of prompts that it looked up in its prefix cache."""
    cached: float = 0.0
    """Those of them that the prefix cache had."""
    guessed: float = 0.0
    """Tokens that speculative decoding guessed."""
    accepted: float = 0.0
    """Those of them that the model accepted."""


@dataclass(frozen=True, slots=True)
class EngineSample:
    model: str
    running: int
    """Requests that the engine computes."""
    waiting: int
    """Requests in the engine's own queue."""
    progress: tuple[float, ...]
    """Numbers of which at least one changes with each scheduler iteration. They are only compared with each other.
    Empty: the engine shows none, and always counts as making progress."""
    kv_cache_tokens: int | None = None
    """Capacity of the KV cache in tokens, as the engine reports it; None if it does not."""
    finished: float = 0.0
    """Requests since its start that it has finished."""
    ttft: Histogram | None = None
    """Seconds to the first token of each request since its start; None if the engine does not measure it."""
    tpot: Histogram | None = None
    """Mean seconds of each further token, for each request since its start."""
    tokens: TokenCounts | None = None
    """None if the engine does not count them."""
    prompts: Histogram | None = None
    """Computed tokens of the prompts of the requests that it has finished since its start."""
    answers: Histogram | None = None
    """Tokens of their answers."""

    @property
    def unfinished(self) -> int:
        return self.running + self.waiting

    @classmethod
    def by_routers(cls, sessions: int) -> "EngineSample":
        """The sample of an engine that shows no metrics: it computes what routers have sent to it."""
        return cls(model="", running=sessions, waiting=0, progress=())


@dataclass(frozen=True, slots=True)
class RouterSample:
    sessions: Mapping[str, int]
    """Requests that the router has sent to each engine, by the engine's IP address."""
    queued: int
    """Requests that wait because every engine has its maximum of requests."""
    held: int
    """Requests that wait because no engine is up."""
    arrivals: int = 0
    """Requests that clients have sent since its start, refused ones included."""
    is_older: bool = False
    """Whether its HAProxy is older than 3.4."""
    prompts: int = 0
    """Prompts that engines have sent since its start, for those that compute prompts."""
    prompts_queued: int = 0
    """Those of them that wait for an engine."""
    prompts_failed: int = 0
    """Those of them that no engine computed: none was there, or had room in time."""


def combined_samples(samples: Iterable[RouterSample]) -> RouterSample:
    routers = list(samples)
    sessions: Counter[str] = Counter()
    for sample in routers:
        sessions.update(sample.sessions)
    return RouterSample(
        dict(sessions),
        sum(router.queued for router in routers),
        sum(router.held for router in routers),
        sum(router.arrivals for router in routers),
        any(router.is_older for router in routers),
        sum(router.prompts for router in routers),
        sum(router.prompts_queued for router in routers),
        sum(router.prompts_failed for router in routers),
    )


class ProbeState(Enum):
    """State of the probe request that the operator sends to an engine that makes no progress."""

    NOT_SENT = "not sent"
    NO_RESPONSE = "no response"
    RESPONDED = "responded"
    UNSUPPORTED = "the engine does not support the request"


@dataclass(frozen=True, slots=True)
class EngineActivity:
    """An engine's latest sample, and since when it has made no progress.

    Times are seconds of a monotonic clock, so only differences have a meaning.
    """

    sample: EngineSample
    sessions: int
    """Requests that routers have sent to it and that are not finished, as far as samples show."""
    at: float
    no_progress_since: float | None = None
    """Time of the first sample after the last progress; None for an engine without requests."""
    probe: ProbeState = ProbeState.NOT_SENT
    probe_sent_at: float = 0.0

    @property
    def outstanding(self) -> int:
        """Unfinished requests of the engine, by its own metrics or the routers', whichever is larger."""
        return max(self.sample.unfinished, self.sessions)

    @property
    def seconds_without_progress(self) -> float:
        return 0.0 if self.no_progress_since is None else self.at - self.no_progress_since

    @property
    def unanswered_seconds(self) -> float:
        return self.at - self.probe_sent_at if self.probe is ProbeState.NO_RESPONSE else 0.0

    def with_probe_sent(self) -> "EngineActivity":
        return replace(self, probe=ProbeState.NO_RESPONSE, probe_sent_at=self.at)

    def with_probe_answered(self, at: float) -> "EngineActivity":
        """The same engine after a response. It computes, so the time without progress restarts."""
        return replace(self, no_progress_since=at, probe=ProbeState.RESPONDED)


def next_activity(
    before: EngineActivity | None,
    sample: EngineSample,
    *,
    sessions: int,
    at: float,
    longest_gap: float,
    in_traffic: bool = True,
) -> EngineActivity:
    """The activity of an engine after its next sample, with the unfinished requests that routers have sent to it.

    While an engine is out of traffic, the clock keeps running even when idle; only a probe response brings it back.
    With more seconds than `longest_gap` between two samples, the time without progress restarts.
    """
    now = EngineActivity(sample, sessions, at)
    if not now.outstanding and in_traffic:
        return now
    if before is None or at - before.at > longest_gap:
        return replace(now, no_progress_since=at)
    moved = not sample.progress or before.no_progress_since is None or sample.progress != before.sample.progress
    if moved and in_traffic:
        return replace(now, no_progress_since=at)
    since = at if moved else before.no_progress_since
    return replace(now, no_progress_since=since, probe=before.probe, probe_sent_at=before.probe_sent_at)


@dataclass(frozen=True, slots=True)
class AdapterFailure:
    since: int
    """Since when it has failed, in seconds since 1970."""
    status: int
    """The engine's HTTP status; 0 if it did not answer."""


@dataclass(frozen=True, slots=True)
class AdapterReport:
    list_hash: str
    """Hash of the list that it has carried out; empty while it is at work."""
    loaded: Mapping[str, str]
    """Paths of the loaded adapters by name, as the engine itself names them."""
    failed: Mapping[str, AdapterFailure] = field(default_factory=dict)
    """Listed adapters that the engine could not load."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The latest samples of one InferenceDeployment's pods, by pod uid. A missing sample does not mean zero."""

    engines: Mapping[str, EngineActivity] = field(default_factory=dict)
    routers: Mapping[str, RouterSample] = field(default_factory=dict)
    adapters: Mapping[str, AdapterReport] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    """Pods whose metrics could not be read several times in a row."""


def adapter_report(text: str) -> AdapterReport | None:
    """The report; None if it is invalid in any way: it runs in a pod of a user, so any text is possible."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            return None
        loaded, failed = mapping(document, "loaded"), mapping(document, "failed")
        return AdapterReport(
            str(document.get("list") or ""),
            {str(name): str(path) for name, path in list(loaded.items())[:MOST_REPORTED]},
            {
                str(name): AdapterFailure(int(failure["since"]), int(failure["status"]))
                for name, failure in list(failed.items())[:MOST_REPORTED]
            },
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
