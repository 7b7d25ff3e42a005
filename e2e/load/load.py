"""Keeps requests in flight from a separate thread while a test changes the cluster."""

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import aiohttp

from e2e.load.answer import Answer
from e2e.load.completion import Question, answer_text, ask
from e2e.load.errors import LoadError
from e2e.load.result import Result
from e2e.load.target import base_url

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
class Phase:
    """A running phase: the test waits for numbers of answers, and marks the time of its fault."""

    name: str
    in_flight: int
    deadline: float
    at_most: int
    answers: list[Answer] = field(default_factory=list)
    fault: float | None = None
    stopped: bool = False
    """Set by the test's thread to end the phase."""
    pause: float = 0.0
    """Seconds between a worker's answer and its next request."""

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
    def over(self) -> bool:
        """Whether the phase has reached its limit of time or requests."""
        return time.monotonic() > self.deadline or len(self.answers) >= self.at_most

    @property
    def result(self) -> Result:
        """The result so far."""
        return Result(self.name, self.in_flight, tuple(self.answers), self.fault)


class Load:
    """Completions of one model at one address of this machine's clusters.

    Args:
        address: host and port.
        model: its name in the API.
        workers: requests in flight.
        request_seconds: how long a client waits for an answer.
    """

    def __init__(
        self, address: str, model: str, *, workers: int = WORKERS, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        self._url = f"{base_url(address)}/v1/completions"
        self._model = model
        self._workers = workers
        self._timeout = aiohttp.ClientTimeout(total=request_seconds)
        self._expected: Mapping[str, str] = {}

    def learn(self) -> None:
        """Send each prompt once without load; its answer is the correct one for all later requests."""
        self._expected = asyncio.run(self._answers())
        if len(set(self._expected.values())) < len(PROMPTS):
            raise LoadError("prompts share answers, so a mixed-up answer would not show: use the test model")

    def right_answer(self, words: int = 8) -> str:
        """The first words of the learned answer to `PROMPT`."""
        return "".join(f" {word}" for word in self._expected[PROMPT].split()[:words])

    def expect(self, other: "Load") -> None:
        """Take the answers that another load has learned, of another server, for the correct ones."""
        self._expected = other._expected  # noqa: SLF001 - the same class

    @contextmanager
    def phase(
        self, name: str, *, at_least: int, seconds: float, at_most: int = AT_MOST, pause: float = 0.0
    ) -> Iterator[Phase]:
        """Send load during the block, and then until `at_least` requests were answered.

        A phase that reaches its limit of time or requests before raises LoadError: it did not cover the block.
        """
        if not self._expected:
            raise LoadError("there are no correct answers to compare with: call `learn` first")
        phase = Phase(name, self._workers, time.monotonic() + seconds, at_most, pause=pause)
        thread = threading.Thread(target=lambda: asyncio.run(self._run(phase)), name=f"load: {name}")
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

    async def _answers(self) -> dict[str, str]:
        async with aiohttp.ClientSession(timeout=self._timeout) as session:
            questions = [Question(self._url, self._model, prompt, streamed=False) for prompt in PROMPTS]
            return {question.prompt: await answer_text(session, question) for question in questions}

    async def _run(self, phase: Phase) -> None:
        kept = aiohttp.TCPConnector(limit=0)
        new = aiohttp.TCPConnector(limit=0, force_close=True)
        async with (
            aiohttp.ClientSession(connector=kept, timeout=self._timeout) as keeping,
            aiohttp.ClientSession(connector=new, timeout=self._timeout) as renewing,
        ):
            sessions = ((keeping, True), (renewing, False))
            workers = (self._work(phase, *sessions[number % 2], number) for number in range(self._workers))
            await asyncio.gather(*workers)

    async def _work(self, phase: Phase, session: aiohttp.ClientSession, kept: bool, number: int) -> None:  # noqa: FBT001
        for turn in count(number):
            if phase.stopped or phase.over:
                return
            # Pairs of workers alternate in streaming, so that each kind of connection carries both.
            streamed = bool((turn - number + number // 2) % 2)
            question = Question(self._url, self._model, PROMPTS[turn % len(PROMPTS)], streamed)
            answer = await ask(session, question, self._expected[question.prompt], kept=kept)
            phase.answers.append(answer)
            pause = phase.pause if answer.ok else max(phase.pause, PAUSE_SECONDS)
            if pause:
                await asyncio.sleep(pause)
