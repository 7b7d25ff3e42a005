"""Runs the batch on the clock, and hands each request its tokens."""

import asyncio
import random
import time
import zlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from e2e.simulator.batch import BLOCK_TOKENS, Batch, Sequence
from e2e.simulator.metrics import Metrics
from e2e.simulator.options import Options

CHARACTERS_PER_TOKEN = 4
"""There is no tokenizer: a token of English text has about four characters."""
_TEXT = (
    "amber anchor apple autumn badge basil beacon birch blossom boat bramble brook candle canyon cedar cinder "
    "clover coast copper coral cotton creek crystal dawn delta dune eagle echo ember falcon feather fern"
)
WORDS = _TEXT.split()


class QueueFullError(Exception):
    """As many requests wait as `--max-num-queued-reqs` allows."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an answer; the last one says why the answer ends."""

    text: str
    finish_reason: str | None = None


@dataclass(slots=True, eq=False)
class Request:
    """A sequence with its client: times in seconds of the monotonic clock."""

    sequence: Sequence
    seed: int
    arrived: float
    params_max_tokens: int
    admitted: float = 0.0
    first: float = 0.0
    latest: float = 0.0
    tokens: "asyncio.Queue[Token]" = field(default_factory=asyncio.Queue)


class Engine:
    """The simulated engine: `answer` yields the tokens of an answer while `run` computes."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.batch = Batch(options)
        self.metrics = Metrics(options)
        self._requests: dict[Sequence, Request] = {}
        self._work = asyncio.Event()

    async def run(self) -> None:
        """Compute steps until cancelled."""
        while True:
            preempted = self.batch.preemptions
            step = self.batch.step()
            self._gauge()
            if step is None:
                self._work.clear()
                await self._work.wait()
                continue
            self._note_admitted()
            self.metrics.preemptions.inc(self.batch.preemptions - preempted)
            await asyncio.sleep(step.seconds)
            self.metrics.iteration_tokens.observe(step.computed)
            for sequence in step.got:
                if request := self._requests.get(sequence):
                    self._hand_over(request)

    async def answer(self, text: str, most: int, *, exactly: bool = False) -> AsyncGenerator[Token, None]:
        """Yield the answer to a prompt; a client that leaves takes its sequence out of the batch.

        Args:
            text: the prompt.
            most: the client's `max_tokens`.
            exactly: the answer does not end by itself before (`ignore_eos`).
        """
        request = self._submitted(text, most, most if exactly else min(most, self.options.answer_tokens))
        reason: str | None = None
        try:
            while reason is None:
                token = await request.tokens.get()
                reason = token.finish_reason
                yield token
        finally:
            self.metrics.note_done(request, reason or "abort")
            self.batch.remove(request.sequence)
            self._requests.pop(request.sequence, None)
            self._gauge()

    def _submitted(self, text: str, most: int, length: int) -> Request:
        full = self.options.max_num_queued_reqs
        if full and len(self.batch.waiting) >= full:
            self.metrics.rejected["max_num_queued_reqs"].inc()
            raise QueueFullError
        sequence = Sequence(prompt_tokens(text), length, _blocks(text))
        seed = zlib.crc32(f"{self.options.names[0]} {text}".encode())
        request = Request(sequence, seed, time.monotonic(), most)
        self._requests[sequence] = request
        self.batch.waiting.append(sequence)
        self._work.set()
        self._gauge()
        return request

    def _note_admitted(self) -> None:
        for sequence in self.batch.running:
            request = self._requests.get(sequence)
            if request and not request.admitted:
                request.admitted = time.monotonic()
                self.metrics.note_admitted(request)

    def _hand_over(self, request: Request) -> None:
        now, sequence = time.monotonic(), request.sequence
        if request.first:
            self.metrics.inter_token.observe(now - request.latest)
        else:
            request.first = now
            self.metrics.note_first(request)
        request.latest = now
        self.metrics.generated.inc()
        reason = None
        if sequence.done:
            self.batch.remove(sequence)
            reason = "length" if sequence.generated == request.params_max_tokens else "stop"
        request.tokens.put_nowait(Token(_word(request.seed, sequence.generated), reason))

    def _gauge(self) -> None:
        used = self.batch.used / self.options.kv_cache_tokens
        self.metrics.gauge(len(self.batch.running), len(self.batch.waiting), used)


def prompt_tokens(text: str) -> int:
    """Tokens of a prompt, at least one.

    Examples:
        >>> prompt_tokens(""), prompt_tokens("Tell me about otters")
        (1, 5)
    """
    return max(1, -(-len(text) // CHARACTERS_PER_TOKEN))


def _blocks(text: str) -> tuple[int, ...]:
    """A hash for each full block: that of the text up to its end."""
    size, value, hashes = BLOCK_TOKENS * CHARACTERS_PER_TOKEN, 0, []
    for end in range(size, len(text) + 1, size):
        value = hash((value, text[end - size : end]))
        hashes.append(value)
    return tuple(hashes)


def _word(seed: int, number: int) -> str:
    """The token of an answer with this number; the same for the same model and prompt."""
    return random.Random(seed * 1_000_003 + number).choice(WORDS) + " "  # noqa: S311 - a text, no secret
