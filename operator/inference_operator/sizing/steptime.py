"""The time of one step of an engine: a forward pass over a batch of decoding sequences and some tokens of prompts.

    step     = matrices + attention + exchange + fixed
    matrices = max(bytes of weights / bandwidth, operations / tensor operations per second)
    weights  = dense + experts x (1 - (1 - experts of a token / experts) ^ tokens)
    attention = cached tokens of all sequences / bandwidth + operations between the tokens of prompts
    exchange = layers x 2 x (latency + bytes of activations x 2 (ranks - 1) / ranks / link)

- A rank reads its part of the weights once for each step. A matrix product is bound by memory or by arithmetic.
- Of the routed experts, a batch of few tokens touches a part. The exponent assumes that routers choose evenly.
- Attention is a kernel of its own: it reads the keys and values of every sequence in the batch.
- Tensor parallelism sums activations over the ranks twice in each layer (ring all-reduce).
- A pipeline of n stages works on n parts of the batch at a time: a token takes n stages of a batch of one n-th.
- Between nodes, activations pass a network that is slower than NVLink: those of each stage that ends on a node, and
  those of tensor parallelism where it is wider than a node.
- With speculative decoding a step verifies k guesses of each sequence beside its own token, after k steps of what
  guesses. It reads the cache once for all of them. A sequence gets 1 + k x accepted tokens a step.

The ratios of what is reached to what data sheets promise are measured (`sizing/efficiency.py`); everything else is
arithmetic. The time is stored with a plan as `StepCosts`, seconds for each unit of work, so that a later decision
about the same engines needs neither the model's files nor the nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf
from math import pow as power
from typing import cast


@dataclass(frozen=True, slots=True)
class Overhead:
    """The time of an engine's own program, beside the GPU's kernels, in seconds."""

    step: float
    """Of each step."""
    sequence: float
    """Of each sequence in it."""


DIGITS = 4
"""Significant digits of a stored time."""


@dataclass(frozen=True, slots=True)
class GuessCosts:
    """Seconds of speculative decoding in a step, on each rank. They grow with its sequences."""

    tokens: int
    """Tokens that are guessed for each sequence."""
    fixed: float
    """To read what guesses them, to start its kernels, and to compare the guesses."""
    sequence: float = 0.0
    """To guess those of one sequence, and to compute the model's logits for them."""
    cached_token: float = 0.0
    """To read what the KV cache of a draft model keeps of one token."""
    accepted: float | None = None
    """Part of them that the model accepts; None where nobody publishes it."""

    @property
    def possible(self) -> bool:
        times = all(0 <= value < inf for value in (self.fixed, self.sequence, self.cached_token))
        return times and self.tokens >= 1 and 0 <= (self.accepted or 0.0) <= 1


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Seconds of the parts of a step on each rank of one pipeline stage."""

    dense: float
    """To read the weights that every step reads."""
    cached_token: float
    """To read what the KV cache keeps of one token, in layers that keep all tokens."""
    token: float
    """To multiply one token with the weights that it uses."""
    fixed: float
    """The engine's own time for a step, and the latency of exchanges between ranks."""
    experts: float = 0.0
    """To read all routed experts."""
    expert_share: float = 0.0
    """The part of the experts that one token uses."""
    sequence: float = 0.0
    """To read the state of one sequence in layers whose state has a fixed size, and the engine's time for it."""
    windows: Mapping[str, float] = field(default_factory=dict)
    """To read what layers with a window keep of one token, by the window's tokens."""
    attention: float = 0.0
    """To compute the attention between two tokens of a prompt."""
    exchange: float = 0.0
    """To sum the activations of one token over the ranks."""
    stages: int = 1
    decodes: bool = True
    """Whether sequences get tokens; pooling models only read prompts."""
    estimated: bool = False
    """Whether no measurement of this class of model on this kind of GPU exists."""
    guesses: GuessCosts | None = None
    """Of speculative decoding; None without it, or if its costs are unknown."""

    @property
    def _known_guesses(self) -> GuessCosts | None:
        return self.guesses if self.guesses and self.guesses.accepted is not None else None

    @property
    def verified(self) -> int:
        return 1 + (self._known_guesses.tokens if self._known_guesses else 0)

    @property
    def tokens_of_step(self) -> float:
        return 1 + (self.verified - 1) * (self.guesses.accepted or 0.0 if self.guesses else 0.0)

    def accepting(self, accepted: float | None) -> "StepCosts":
        if accepted is None or self.guesses is None:
            return self
        return replace(self, guesses=replace(self.guesses, accepted=accepted))

    def seconds(self, sequences: float, *, prompt: float = 0.0, context: float = 0.0, before: float = 0.0) -> float:
        """Seconds of one step. Guesses of which nobody knows how many are accepted take no time, as they give none.

        Args:
            sequences: sequences in the batch that decode.
            prompt: tokens of prompts in the batch.
            context: mean number of tokens that a decoding sequence has in the cache.
            before: mean number of tokens before a token of a prompt.
        """
        batch, prefill = sequences / self.stages, prompt / self.stages
        tokens = batch * self.verified + prefill
        touched = 1 - power(1 - self.expert_share, tokens)
        matrices = max(self.dense + self.experts * touched, self.token * tokens)
        attention = batch * self._cached(context) + self.attention * prefill * before
        own = matrices + attention + self.exchange * tokens + self.fixed + self.sequence * batch
        if sequences and (guesses := self._known_guesses):
            own += guesses.fixed + batch * (guesses.sequence + guesses.cached_token * context)
        return self.stages * own

    @property
    def possible(self) -> bool:
        """Whether a step takes time; somebody may have edited a stored plan."""
        values = [getattr(self, field.name) for field in fields(self) if field.type is float]
        in_range = all(0 <= value < inf for value in (*values, *self.windows.values()))
        in_range = in_range and (self.guesses is None or self.guesses.possible)
        return in_range and self.stages >= 1 and self.expert_share <= 1 and self.seconds(1, prompt=1) > 0

    @property
    def rounded(self) -> "StepCosts":
        """The same with `DIGITS` digits, as a plan stores it; the model is not more exact."""
        return cast("StepCosts", _rounded(self))

    def _cached(self, context: float) -> float:
        windows = sum(each * min(float(window), context) for window, each in self.windows.items())
        return context * self.cached_token + windows


def _rounded(value: object) -> object:
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case Mapping():
            return {key: _rounded(each) for key, each in value.items()}
        case StepCosts() | GuessCosts():
            values = {field.name: _rounded(getattr(value, field.name)) for field in fields(value)}
            return replace(value, **values)  # type: ignore[arg-type]
        case _:
            return value
