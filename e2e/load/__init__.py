"""The load of `infd drill`, at addresses of this machine and of its clusters only, with answers that are known.

    load = Load("10.96.1.2:80", "tiny")
    load.learn()
    with load.phase("a pod is deleted", at_least=500, seconds=120) as phase:
        delete_the_pod()
        phase.mark()
    print(phase.result)

Half of the requests stream. Half use kept connections, the others new ones.
"""

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from e2e.load.result import LoadError, Result, is_clean_error
from e2e.load.target import base_url
from inference_operator.cli.drill.completion import DATA, DONE, Question, answer_text, ask
from inference_operator.cli.drill.load import PROMPTS, WORKERS, LoadPhase, NumberedLoad
from inference_operator.cli.drill.promises import CheckedAnswer as Answer
from inference_operator.cli.drill.promises import Fault, Loss

__all__ = ["Answer", "Fault", "LoadError", "Loss", "Result", "is_clean_error"]

AT_MOST = 20_000
"""Default limit of the requests of a phase."""
GENTLE_PAUSE_SECONDS = 0.5
"""A pause of each worker that leaves most of a core to an engine that starts under the load."""
PROMPT = PROMPTS[0]
_POLL_SECONDS = 0.02


@dataclass(slots=True)
class Phase(LoadPhase):
    """A running phase: the test waits for numbers of answers, and marks the time of its fault."""

    name: str = ""
    in_flight: int = 0
    fault: float | None = None

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
    def result(self) -> Result:
        """The result so far."""
        return Result(self.name, self.in_flight, tuple(self.answers), self.fault)


class Load(NumberedLoad):
    """Completions of one model at an address, host and port, of this machine's clusters."""

    def __init__(self, address: str, model: str, *, workers: int = WORKERS, **options: Any) -> None:  # noqa: ANN401 - as the generator's
        super().__init__(base_url(address), model, workers=workers, **options)
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
        phase = Phase(time.monotonic() + seconds, at_most, pause=pause, name=name, in_flight=self.workers)
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

    async def _answers(self) -> dict[str, str]:
        async with self._client(kept=True) as session:
            questions = [Question(self.completions, self.model, prompt, streamed=False) for prompt in PROMPTS]
            return {question.prompt: await answer_text(session, question) for question in questions}

    def _question(self, number: int, *, streamed: bool) -> Question:
        question = super()._question(number, streamed=streamed)
        return replace(question, prompt=PROMPTS[number % len(PROMPTS)])

    async def _answer(self, session: aiohttp.ClientSession, question: Question, kept: bool) -> Answer:  # noqa: FBT001
        return await ask(session, question, self._expected[question.prompt], kept=kept)


async def chunk_times(session: aiohttp.ClientSession, question: Question) -> list[float]:
    """Arrival of each chunk of a stream in seconds after the request, without the end marker."""
    started = asyncio.get_running_loop().time()
    times: list[float] = []
    async with session.post(question.url, json=question.body, raise_for_status=True) as response:
        async for line in response.content:
            data = line.removeprefix(DATA).strip()
            if line.startswith(DATA) and data != DONE:
                times.append(asyncio.get_running_loop().time() - started)
    return times
