"""Heads and smaller models that guess tokens for a model: what is published about them."""

from collections.abc import Sequence
from dataclasses import dataclass

BYTES = 2
"""Of an element of a head: all are published in bfloat16."""
_CARDS = "card of the repository on the hub, November 2026"


@dataclass(frozen=True, slots=True)
class Drafter:
    """A published head or smaller model."""

    repository: str
    models: tuple[str, ...]
    """The models that it guesses for."""
    licence: str
    source: str
    """Where its figures are published."""
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


def known_draft(model: str, *, head: bool) -> Drafter | None:
    """The first head, or smaller model, that is known for a model.

    Examples:
        >>> known_draft("Qwen/Qwen3-8B", head=False).repository, known_draft("Qwen/Qwen3-8B", head=True) is None
        ('Qwen/Qwen3-0.6B', True)
    """
    return next((draft for draft in DRAFTS if model in draft.models and draft.is_head is head), None)


def named_draft(repository: str) -> Drafter | None:
    return next((draft for draft in DRAFTS if draft.repository == repository), None)
