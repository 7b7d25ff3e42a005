"""Continuous batching without a clock: which sequences a step computes, and how long it takes."""

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from e2e.simulator.options import Options

BLOCK_TOKENS = 16
"""Tokens of a block of the KV cache (vLLM 0.32.0, `config/cache.py`)."""


@dataclass(slots=True, eq=False)
class Sequence:
    """One answer being computed.

    Args:
        prompt: tokens of the prompt.
        most: tokens after which the answer ends.
        blocks: a hash for each full block of the prompt; equal prefixes have equal hashes.
    """

    prompt: int
    most: int
    blocks: tuple[int, ...] = ()
    computed: int = 0
    """Tokens in the KV cache, without the generated ones of this run."""
    generated: int = 0
    cached: int = 0
    """Tokens of the prompt that were in the prefix cache when it was admitted."""
    preemptions: int = 0
    _target: int = field(default=0, init=False)

    @property
    def decodes(self) -> bool:
        """Whether its prompt is computed."""
        return self.computed >= self.target

    @property
    def target(self) -> int:
        """Tokens to compute before it decodes; a preempted sequence computes its own answer again."""
        return self._target or self.prompt

    @property
    def held(self) -> int:
        """Tokens of the KV cache that it holds: its prompt, from its admission on, its answer, and the next token."""
        return self.prompt + self.generated + 1

    @property
    def done(self) -> bool:
        """Whether its answer is complete."""
        return self.generated >= self.most

    def restart(self) -> None:
        """Lose the KV cache."""
        self.computed, self._target = 0, self.prompt + self.generated
        self.preemptions += 1


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the engine."""

    seconds: float
    computed: int
    """Tokens of the step: those of prompts, and one for each decoding sequence."""
    got: tuple[Sequence, ...]
    """Sequences that have one token more after it."""


@dataclass(slots=True)
class Batch:
    """The scheduler: sequences that run, and those that wait in order of arrival."""

    options: Options
    running: list[Sequence] = field(default_factory=list)
    waiting: deque[Sequence] = field(default_factory=deque)
    preemptions: int = 0
    _known: "OrderedDict[int, None]" = field(default_factory=OrderedDict)
    """The prefix cache: hashes of blocks, the least recently used first."""

    @property
    def used(self) -> int:
        """Tokens of the KV cache that running sequences hold."""
        return sum(sequence.held for sequence in self.running)

    def remove(self, sequence: Sequence) -> None:
        """Take out a sequence that is done, or whose client left."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def step(self) -> Step | None:
        """Admit what fits, and compute one step; None without a sequence."""
        self._preempt()
        self._admit()
        if not self.running:
            return None
        decoding = [sequence for sequence in self.running if sequence.decodes and not sequence.done]
        prefilled, finished = self._prefill(self.options.max_num_batched_tokens - len(decoding))
        got = (*decoding, *finished)
        for sequence in got:
            sequence.generated += 1
        seconds = self.options.decode_step_seconds + prefilled / self.options.prefill_tokens_per_second
        seconds += self.options.decode_sequence_seconds * len(decoding)
        return Step(seconds, prefilled + len(decoding), got)

    def _prefill(self, budget: int) -> tuple[int, list[Sequence]]:
        """Compute prompts in order; returns the number of tokens, and the sequences whose prompt is complete."""
        prefilled = 0
        finished: list[Sequence] = []
        for sequence in self.running:
            if sequence.decodes:
                continue
            chunk = max(0, min(budget - prefilled, sequence.target - sequence.computed))
            sequence.computed += chunk
            prefilled += chunk
            if sequence.decodes:
                finished.append(sequence)
                self._remember(sequence)
        return prefilled, finished

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.options.max_num_seqs:
            first = self.waiting[0]
            if self.running and self.used + first.target + 1 > self.options.kv_cache_tokens:
                return
            self.running.append(self.waiting.popleft())
            # The last token of a prompt is always computed, because its result is the first token of the answer.
            first.cached = min(self._known_tokens(first), first.prompt - 1)
            first.computed = first.cached

    def _preempt(self) -> None:
        while len(self.running) > 1 and self.used > self.options.kv_cache_tokens:
            latest = self.running.pop()
            latest.restart()
            self.waiting.appendleft(latest)
            self.preemptions += 1

    def _known_tokens(self, sequence: Sequence) -> int:
        blocks = 0
        for block in sequence.blocks:
            if block not in self._known:
                break
            self._known.move_to_end(block)
            blocks += 1
        return blocks * BLOCK_TOKENS

    def _remember(self, sequence: Sequence) -> None:
        if not self.options.prefix_cache:
            return
        for block in sequence.blocks:
            self._known[block] = None
            self._known.move_to_end(block)
        while len(self._known) > self.options.kv_cache_tokens // BLOCK_TOKENS:
            self._known.popitem(last=False)
