"""Heads and smaller models that guess tokens for a model: what is published about them."""

from collections.abc import Sequence
from dataclasses import dataclass

BYTES = 2
"""Of an element of a head: all are published in bfloat16."""
_CARDS = "card of the repository on the hub, November 2026"


@dataclass(frozen=True, slots=True)
class Drafter:
    repository: str
    models: tuple[str, ...]
    licence: str
    source: str
    tokens: int
    """Tokens of a step that its publisher guesses."""
    head_parameters: float = 0.0
    """Of a head that reads the model's states (EAGLE 3); 0 for a model of its own."""
    accepted: float = 0.0
    """Tokens of a mean step at temperature 0, with the one that the model adds; 0 if nothing is published."""
    accepted_of: int = 0
    """Tokens that were guessed then."""

    @property
    def is_head(self) -> bool:
        return self.head_parameters > 0

    @property
    def head_bytes(self) -> int:
        return round(BYTES * self.head_parameters)


DRAFTS: Sequence[Drafter] = (
    Drafter("nebius/EAGLE3-gpt-oss-20b", ("openai/gpt-oss-20b",), "CC BY 4.0", _CARDS, 6, 0.4e9, 3.49, 7),
    Drafter("nebius/EAGLE3-gpt-oss-120b", ("openai/gpt-oss-120b",), "CC BY 4.0", _CARDS, 6, 0.4e9, 2.81, 7),
    Drafter(
        "Qwen/Qwen3-0.6B",
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "Qwen/Qwen3-8B-FP8", "Qwen/Qwen3-32B-FP8"),
        "Apache-2.0",
        "vLLM, docs/features/speculative_decoding/draft_model.md",
        5,
    ),
)
"""Known drafts. Those of the same model come in the order in which they are tried."""

PREDICTING = {"deepseek-ai/DeepSeek-V3": 1.85}
"""Tokens of a mean step of models whose own layers guess one token, by their publishers (DeepSeek-V3 Technical Report,
arXiv 2412.19437, 5.4.3: 85 to 90 % are accepted)."""


def accepted_part(expected: float, of: int, tokens: int) -> float:
    """The part of so many guesses that is accepted, if a step of `of` guesses has `expected` tokens in the mean.

    With a chance a of each guess, a step of k guesses has (1 - a^(k + 1)) / (1 - a) tokens (Leviathan et al. 2023,
    arXiv 2211.17192, equation 1), which is the sum of the powers of a up to the k-th.
    """
    low, high = 0.0, 1.0
    for _ in range(_HALVED):
        chance = (low + high) / 2
        low, high = (chance, high) if _guessed_right(chance, of) < expected - 1 else (low, chance)
    return round(_guessed_right(high, tokens) / tokens, _DIGITS)


_HALVED, _DIGITS = 40, 6


def _guessed_right(chance: float, tokens: int) -> float:
    return sum(chance**position for position in range(1, tokens + 1))


def published_part(model: str, draft: str, tokens: int) -> float | None:
    """The part of so many guesses that is accepted by what is published; without a draft, of the model's own layers.

    Examples:
        >>> published_part("deepseek-ai/DeepSeek-V3", "", 1), published_part("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", 3)
        (0.85, None)
    """
    if not draft:
        return accepted_part(PREDICTING[model], 1, tokens) if model in PREDICTING else None
    known = named_draft(draft)
    found = known is not None and model in known.models and known.accepted > 0
    return accepted_part(known.accepted, known.accepted_of, tokens) if known and found else None


def known_draft(model: str, *, head: bool) -> Drafter | None:
    """The first head, or smaller model, that is known for a model.

    Examples:
        >>> known_draft("Qwen/Qwen3-8B", head=False).repository, known_draft("Qwen/Qwen3-8B", head=True) is None
        ('Qwen/Qwen3-0.6B', True)
    """
    return next((draft for draft in DRAFTS if model in draft.models and draft.is_head is head), None)


def named_draft(repository: str) -> Drafter | None:
    return next((draft for draft in DRAFTS if draft.repository == repository), None)
