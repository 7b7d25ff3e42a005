"""Keeps numbered requests in flight while something changes the cluster, and counts every lost one.

A request is *lost* if its connection fails, if its status is neither 2xx nor the documented 429, or if its answer is
not whole, not in order, or not that to its request.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from itertools import count

import aiohttp

from inference_operator.cli.drill.completion import TOKENS, EngineTraits, Question, ask, engine_traits
from inference_operator.cli.drill.promises import CheckedAnswer

WORKERS = 64
REQUEST_SECONDS = 120.0
"""Timeout of a request: far longer than the router or a busy engine needs here."""
PAUSE_SECONDS = 0.1
"""A worker's pause after a loss or a rejection, so that fast refusals do not cause a flood of requests."""

_WORDS = (
    "amber anchor apple autumn badge basil beacon birch blossom boat bramble brook candle canyon cedar cinder "
    "clover coast copper coral cotton creek crystal dawn delta dune eagle echo ember falcon feather fern"
)
PROMPTS = tuple(f"Tell me about {word}" for word in _WORDS.split())


@dataclass(slots=True)
class LoadPhase:
    deadline: float = float("inf")
    at_most: int = sys.maxsize
    answers: list[CheckedAnswer] = field(default_factory=list)
    stopped: bool = False
    pause: float = 0.0
    """Seconds between a worker's answer and its next request."""
    rate: float = 0.0
    """Most requests per second of all workers; 0: as many as are answered."""
    sent: int = 0
    """Requests, which have the numbers below it."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def next_number(self) -> int | None:
        """The number of a worker's next request, at its time; None at the end of the phase."""
        async with self._turn:
            if self.rate and not self.is_over:
                await asyncio.sleep(1 / self.rate)
            if self.is_over:
                return None
            self.sent += 1
            return self.sent - 1

    @property
    def is_over(self) -> bool:
        return self.stopped or self.over

    @property
    def over(self) -> bool:
        return time.monotonic() > self.deadline or len(self.answers) >= self.at_most


Connectors = Callable[[bool], aiohttp.BaseConnector]
"""Makes what connections come from, which are kept for the next request or not."""


def tcp(kept: bool) -> aiohttp.BaseConnector:  # noqa: FBT001 - a `Connectors`
    return aiohttp.TCPConnector(limit=0, force_close=not kept)


@dataclass(eq=False)
class NumberedLoad:
    url: str
    model: str
    _: KW_ONLY
    workers: int = WORKERS
    request_seconds: float = REQUEST_SECONDS
    headers: Mapping[str, str] | None = None
    connectors: Connectors = tcp
    run: str = ""
    """A name for the requests, which have it in their IDs before their number; empty: they have none."""
    tokens: int = TOKENS
    traits: EngineTraits = field(default_factory=EngineTraits)

    @property
    def completions(self) -> str:
        return f"{self.url}/v1/completions"

    async def learn_traits(self) -> None:
        """Ask one question without load, and see what the engine shows of its answers; raises `aiohttp`'s errors."""
        async with self._client(kept=False) as session:
            self.traits = await engine_traits(session, self._question(-1, streamed=True))

    async def send(self, phase: LoadPhase) -> None:
        async with self._client(kept=True) as keeping, self._client(kept=False) as renewing:
            sessions = ((keeping, True), (renewing, False))
            await asyncio.gather(*(self._work(phase, *sessions[n % 2], n) for n in range(self.workers)))

    def _client(self, *, kept: bool) -> aiohttp.ClientSession:
        timeout = aiohttp.ClientTimeout(total=self.request_seconds)
        return aiohttp.ClientSession(connector=self.connectors(kept), timeout=timeout, headers=self.headers)

    def _question(self, number: int, *, streamed: bool) -> Question:
        return Question(
            self.completions,
            self.model,
            f"{PROMPTS[number % len(PROMPTS)]}. Request {self.run} {number}.",
            streamed,
            self.tokens,
            self.traits,
            number,
            f"{self.run}-{number}" if self.run else "",
        )

    async def _answer(self, session: aiohttp.ClientSession, question: Question, kept: bool) -> CheckedAnswer:  # noqa: FBT001
        return await ask(session, question, None, kept=kept)

    async def _work(self, phase: LoadPhase, session: aiohttp.ClientSession, kept: bool, worker: int) -> None:  # noqa: FBT001
        for turn in count(worker // 2):
            number = await phase.next_number()
            if number is None:
                return
            # Pairs of workers alternate in streaming, so that each kind of connection carries both.
            question = self._question(number, streamed=bool(turn % 2))
            answer = await self._answer(session, question, kept)
            phase.answers.append(answer)
            pause = phase.pause if answer.ok else max(phase.pause, PAUSE_SECONDS)
            if pause:
                await asyncio.sleep(pause)
