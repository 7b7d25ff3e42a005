"""A simulation of engines with prefix caches behind the routers of one InferenceDeployment.

The engine is a model, not vLLM:

- A prompt is a sequence of blocks of 512 tokens. A block's identifier depends on all blocks before it, as in vLLM's
  prefix cache, so the hit of a request is the number of its leading blocks that the engine holds.
- The cache is one LRU list of blocks for each engine. A block that is not in it is computed and added.
- Prompts are computed one after the other. A decoding step takes 12 ms plus 0.15 ms for each sequence.
- The time to first token is the wait for earlier prompts plus the computation of the blocks that missed.

The router is HAProxy's arithmetic: each process counts only its own requests. `leastconn` takes the engine with the
fewest of them. The hash ring has 1,024 points for each engine (weight 64 times 16), and `hash-balance-factor` limits
what one engine may have (HAProxy 3.0, src/lb_chash.c, chash_server_is_eligible).
"""

import heapq
import random
from bisect import bisect_left
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from math import ceil
from statistics import fmean

from inference_operator.router.affinity import HOT_REQUESTS

BLOCK_TOKENS = 512
"""Tokens of one block, as in the Mooncake traces."""
PREFILL_TOKENS_PER_SECOND = 9_600.0
"""An 8B model on one large GPU computes about 16,000 tokens a second; 60 % of each step are left to prompts."""
STEP_SECONDS, STEP_SECONDS_PER_SEQUENCE = 0.012, 0.00015
RING_POINTS = 1_024
RATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a workload."""

    second: float
    blocks: tuple[int, ...]
    output_tokens: int
    system: str = ""
    """The system prompt, or its identifier."""
    conversation: str = ""
    """The first user message, or its identifier."""
    first_bytes: str = ""
    """The first bytes of the body, which other routers hash."""


@dataclass(slots=True)
class Engine:
    """An engine with its prefix cache."""

    capacity: int
    """Blocks that the cache holds."""
    cache: OrderedDict[int, None] = field(default_factory=OrderedDict)
    prefill_free_at: float = 0.0
    decoding: int = 0

    def hits(self, blocks: Sequence[int]) -> int:
        """Number of leading blocks in the cache."""
        return next((index for index, block in enumerate(blocks) if block not in self.cache), len(blocks))

    def seconds_to_first_token(self, request: Request, now: float) -> float:
        """How long a request would wait for its first token if it came now."""
        missed = len(request.blocks) - self.hits(request.blocks)
        return max(0.0, self.prefill_free_at - now) + missed * BLOCK_TOKENS / PREFILL_TOKENS_PER_SECOND

    def start(self, request: Request, now: float) -> tuple[float, float]:
        """Compute a prompt. Returns when its first token and its last token are there."""
        first = now + self.seconds_to_first_token(request, now)
        self.prefill_free_at = first
        for block in request.blocks:
            self.cache[block] = None
            self.cache.move_to_end(block)
        while len(self.cache) > self.capacity:
            self.cache.popitem(last=False)
        self.decoding += 1
        step = STEP_SECONDS + STEP_SECONDS_PER_SEQUENCE * self.decoding
        return first, first + request.output_tokens * step


@dataclass(slots=True)
class Fleet:
    """All engines, with the requests in flight of each router process."""

    engines: list[Engine]
    in_flight: list[list[int]]
    """By router process, then by engine."""
    conversations: list[Counter[str]]
    """Requests in flight of each conversation, by router process."""
    random: random.Random
    ring: list[tuple[int, int]]
    """Points of the hash ring with their engine."""


Key = Callable[[Fleet, Request, int, float], str | None]
"""The affinity key of a request: the fleet, the request, the router process, and the second."""
Policy = Callable[[Fleet, Request, int, float], int]
"""Chooses an engine: the fleet, the request, the router process, and the second."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a policy reached on a workload."""

    hit_rate: float
    """Part of all prompt tokens that were in a cache."""
    mean_ttft: float
    """Mean time to first token in seconds."""
    p99_ttft: float


def simulated(
    requests: Sequence[Request], policy: Policy, *, engines: int, cache_tokens: int, processes: int = 4, seed: int = 1
) -> Result:
    """The result of a policy: every request goes to a random router process, and from there to the chosen engine."""
    fleet = _fleet(engines, cache_tokens // BLOCK_TOKENS, processes, seed)
    ends: list[tuple[float, int, int, int, str]] = []
    times, hits, order = [], 0, count()
    for request in requests:
        while ends and ends[0][0] <= request.second:
            _, _, process, chosen, conversation = heapq.heappop(ends)
            fleet.conversations[process][conversation] -= 1
            fleet.in_flight[process][chosen] -= 1
            fleet.engines[chosen].decoding -= 1
        process = fleet.random.randrange(processes)
        fleet.conversations[process][request.conversation] += 1
        chosen = policy(fleet, request, process, request.second)
        engine = fleet.engines[chosen]
        hits += engine.hits(request.blocks)
        first, last = engine.start(request, request.second)
        fleet.in_flight[process][chosen] += 1
        heapq.heappush(ends, (last, next(order), process, chosen, request.conversation))
        times.append(first - request.second)
    total = sum(len(request.blocks) for request in requests)
    return Result(hits / total, fmean(times), sorted(times)[int(0.99 * len(times))])


def _fleet(engines: int, capacity: int, processes: int, seed: int) -> Fleet:
    points = sorted((_hash(f"{engine}/{point}"), engine) for engine in range(engines) for point in range(RING_POINTS))
    in_flight = [[0] * engines for _ in range(processes)]
    conversations = [Counter[str]() for _ in range(processes)]
    chance = random.Random(seed)  # noqa: S311 - no secret
    return Fleet([Engine(capacity) for _ in range(engines)], in_flight, conversations, chance, points)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest())


def at_random(fleet: Fleet, _request: Request, _process: int, _now: float) -> int:
    """Any engine."""
    return fleet.random.randrange(len(fleet.engines))


def least_outstanding(fleet: Fleet, _request: Request, process: int, _now: float) -> int:
    """The engine with the fewest requests of this router process; the next one in turn among equals."""
    in_flight = fleet.in_flight[process]
    fewest = min(in_flight)
    return fleet.random.choice([engine for engine, number in enumerate(in_flight) if number == fewest])


def oracle(fleet: Fleet, request: Request, _process: int, now: float) -> int:
    """The engine with the shortest time to first token; knows every cache and every queue."""
    waits = [engine.seconds_to_first_token(request, now) for engine in fleet.engines]
    best = min(waits)
    tied = [engine for engine, wait in enumerate(waits) if wait <= best]
    return min(tied, key=lambda engine: fleet.engines[engine].decoding)


def hashed(key: Key, *, factor: float) -> Policy:
    """Consistent hashing of a key with bounded load. Requests without a key take the engines in turn.

    Args:
        key: the key of a request, or None.
        factor: what one engine may have, as a multiple of its fair share (`hash-balance-factor` / 100).
    """
    turns = count()

    def policy(fleet: Fleet, request: Request, process: int, now: float) -> int:
        text = key(fleet, request, process, now)
        if text is None:
            return next(turns) % len(fleet.engines)
        in_flight = fleet.in_flight[process]
        slots = ceil((sum(in_flight) + 1) * factor)
        start = bisect_left(fleet.ring, (_hash(text), 0))
        for offset in range(len(fleet.ring)):
            engine = fleet.ring[(start + offset) % len(fleet.ring)][1]
            if in_flight[engine] < _share(slots, engine, len(fleet.engines)):
                return engine
        return least_outstanding(fleet, request, process, now)

    return policy


def _share(slots: int, engine: int, engines: int) -> int:
    whole, rest = divmod(slots, engines)
    return max(1, whole + (engine + 1) * rest // engines - engine * rest // engines)


class Rates:
    """Requests of each key in the last minute, as HAProxy's stick tables count them in one process."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, str]] = deque()
        self._counts: Counter[str] = Counter()

    def share(self, key: str, now: float) -> float:
        """Count one request, and return the key's part of all requests of the last minute."""
        while self._recent and self._recent[0][0] < now - RATE_SECONDS:
            self._counts[self._recent.popleft()[1]] -= 1
        self._recent.append((now, key))
        self._counts[key] += 1
        return self._counts[key] / len(self._recent)


def prefix_affinity(*, engines: int) -> Key:
    """The router's own key: the system prompt if it is rare, else the conversation; none for a hot conversation."""
    systems: defaultdict[int, Rates] = defaultdict(Rates)

    def key(fleet: Fleet, request: Request, process: int, now: float) -> str | None:
        share = systems[process].share(request.system, now)
        if share * 2 * engines <= 1:
            return request.system
        in_flight = fleet.conversations[process][request.conversation]
        hot = (in_flight - HOT_REQUESTS) * engines > sum(fleet.in_flight[process])
        return None if hot else request.conversation

    return key
