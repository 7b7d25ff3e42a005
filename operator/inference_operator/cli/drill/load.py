"""Keeps numbered requests in flight while something changes the cluster, and counts every lost one.

A request is *lost* if its connection fails, if its status is neither 2xx nor the documented 429, or if its answer is
not whole, not in order, or not that to its request.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import aiohttp

from inference_operator.cli.drill.answer import CheckedAnswer, LoadError
from inference_operator.cli.drill.completion import TOKENS, EngineTraits, Question, answer_text, ask, engine_traits
from inference_operator.cli.drill.result import Result

WORKERS = 64
"""Requests in flight."""
AT_MOST = 20_000
"""Default limit of the requests of a phase."""
REQUEST_SECONDS = 120.0
"""Timeout of a request: far longer than the router or a busy engine needs here."""
GENTLE_PAUSE_SECONDS = 0.5
"""A pause of each worker that leaves most of a core to an engine that starts under the load."""
PAUSE_SECONDS = 0.1
"""A worker's pause after a loss or a rejection, so that fast refusals do not cause a flood of requests."""
_POLL_SECONDS = 0.02

_WORDS = (
    "amber anchor apple autumn badge basil beacon birch blossom boat bramble brook candle canyon cedar cinder "
    "clover coast copper coral cotton creek crystal dawn delta dune eagle echo ember falcon feather fern"
)
PROMPTS = tuple(f"Tell me about {word}" for word in _WORDS.split())
PROMPT = PROMPTS[0]


@dataclass(slots=True)
class LoadPhase:
    """A running phase: the test waits for numbers of answers, and marks the time of its fault."""

    name: str
    in_flight: int
    deadline: float
    at_most: int
    answers: list[CheckedAnswer] = field(default_factory=list)
    fault: float | None = None
    stopped: bool = False
    """Set by the test's thread to end the phase."""
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

    def mark(self) -> None:
        """Record the time of the fault; results separate later losses from earlier ones."""
        self.fault = time.monotonic()

    def await_answers(self, number: int) -> None:
        """Wait for this number of further answers."""
        wanted = len(self.answers) + number
        while len(self.answers) < wanted:
            if self.over:
                raise LoadError(f"phase {self.name!r} reached its limit with {len(self.answers)} answers")
            time.sleep(_POLL_SECONDS)

    @property
    def is_over(self) -> bool:
        """Whether no further request is sent."""
        return self.stopped or self.over

    @property
    def over(self) -> bool:
        """Whether the phase has reached its limit of time or requests."""
        return time.monotonic() > self.deadline or len(self.answers) >= self.at_most

    @property
    def result(self) -> Result:
        """The result so far."""
        return Result(self.name, self.in_flight, tuple(self.answers), self.fault)


Connectors = Callable[[bool], aiohttp.BaseConnector]
"""Makes what connections come from, which are kept for the next request or not."""


def tcp(kept: bool) -> aiohttp.BaseConnector:  # noqa: FBT001 - a `Connectors`
    return aiohttp.TCPConnector(limit=0) if kept else aiohttp.TCPConnector(limit=0, force_close=True)


class NumberedLoad:
    """Completions of one model at one URL.

    Args:
        url: of the server.
        model: its name in the API.
        workers: requests in flight.
        request_seconds: how long a client waits for an answer.
        headers: of each request.
        connectors: where its connections go.
        run: a name for the requests, which have it in their IDs before their number; empty: they have none.
        tokens: of each answer.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        workers: int = WORKERS,
        request_seconds: float = REQUEST_SECONDS,
        headers: Mapping[str, str] | None = None,
        connectors: Connectors = tcp,
        run: str = "",
        tokens: int = TOKENS,
    ) -> None:
        self._url = f"{url}/v1/completions"
        self._model = model
        self._workers = workers
        self._session = {"timeout": aiohttp.ClientTimeout(total=request_seconds), "headers": headers}
        self._connectors = connectors
        self._run_name = run
        self._tokens = tokens
        self._expected: Mapping[str, str] = {}
        self.traits = EngineTraits()

    def learn(self) -> None:
        """Send each prompt once without load; its answer is the correct one for all later requests."""
        self._expected = asyncio.run(self._answers())
        if len(set(self._expected.values())) < len(PROMPTS):
            raise LoadError("prompts share answers, so a mixed-up answer would not show: use the test model")

    async def meet(self) -> None:
        """Ask one question without load, and see what the engine shows of its answers; raises `aiohttp`'s errors."""
        async with self._client(kept=False) as session:
            self.traits = await engine_traits(session, self._question(-1, streamed=True))

    def right_answer(self, words: int = 8) -> str:
        """The first words of the learned answer to `PROMPT`."""
        return "".join(f" {word}" for word in self._expected[PROMPT].split()[:words])

    def expect(self, other: "NumberedLoad") -> None:
        """Take the answers that another load has learned, of another server, for the correct ones."""
        self._expected = other._expected  # noqa: SLF001 - the same class

    @contextmanager
    def phase(
        self, name: str, *, at_least: int, seconds: float, at_most: int = AT_MOST, pause: float = 0.0
    ) -> Iterator[LoadPhase]:
        """Send load during the block, and then until `at_least` requests were answered.

        A phase that reaches its limit of time or requests before raises LoadError: it did not cover the block.
        """
        if not self._expected:
            raise LoadError("there are no correct answers to compare with: call `learn` first")
        phase = LoadPhase(name, self._workers, time.monotonic() + seconds, at_most, pause=pause)
        thread = threading.Thread(target=lambda: asyncio.run(self.send(phase)), name=f"load: {name}")
        thread.start()
        try:
            yield phase
            phase.await_answers(max(0, at_least - len(phase.answers)))
            covered = not phase.over
        finally:
            phase.stopped = True
            thread.join()
        if not covered:
            raise LoadError(f"phase {name!r} ended before its test did: {phase.result}")

    async def send(self, phase: LoadPhase) -> None:
        """Send the requests of a phase until it is over, and wait for their answers."""
        async with self._client(kept=True) as keeping, self._client(kept=False) as renewing:
            sessions = ((keeping, True), (renewing, False))
            await asyncio.gather(*(self._work(phase, *sessions[n % 2], n) for n in range(self._workers)))

    def _client(self, *, kept: bool) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=self._connectors(kept), **self._session)  # type: ignore[arg-type]

    async def _answers(self) -> dict[str, str]:
        async with self._client(kept=True) as session:
            questions = [Question(self._url, self._model, prompt, streamed=False) for prompt in PROMPTS]
            return {question.prompt: await answer_text(session, question) for question in questions}

    def _question(self, number: int, *, streamed: bool) -> Question:
        """The request of a number. Its prompt has the number, unless its answer is known."""
        prompt = PROMPTS[number % len(PROMPTS)]
        return Question(
            self._url,
            self._model,
            prompt if self._expected else f"{prompt}. Request {self._run_name} {number}.",
            streamed,
            self._tokens,
            self.traits,
            number,
            f"{self._run_name}-{number}" if self._run_name else "",
        )

    async def _work(self, phase: LoadPhase, session: aiohttp.ClientSession, kept: bool, worker: int) -> None:  # noqa: FBT001
        for turn in count(worker // 2):
            number = await phase.next_number()
            if number is None:
                return
            # Pairs of workers alternate in streaming, so that each kind of connection carries both.
            question = self._question(number, streamed=bool(turn % 2))
            answer = await ask(session, question, self._expected.get(question.prompt), kept=kept)
            phase.answers.append(answer)
            pause = phase.pause if answer.ok else max(phase.pause, PAUSE_SECONDS)
            if pause:
                await asyncio.sleep(pause)
