"""The memory budget of one GPU: what the engine may use, what each term takes, and what remains for the KV cache.

The terms are those of all engines. How large they are, and which of them an engine counts, each engine computes itself.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.shape import Shape, SizingInputs
from inference_operator.sizing.steptime import StepCosts

SPARE = 0.02
"""Fraction of the GPU that stays free where sizing chooses a size. It covers what vLLM's profiling run does not measure
(fragmentation, prompts' log probabilities; vllm-project/vllm#10637, #55169) and the error of the arithmetic."""
TYPICAL_TOKENS = 2048
"""Tokens of a typical request, prompt and answer together (docs/explanation/sizing.md)."""


class TermName(StrEnum):
    WEIGHTS = "weights"
    ACTIVATION = "activation"
    NON_TORCH = "non-torch"
    CUDA_GRAPHS = "CUDA graphs"
    KV_CACHE = "KV cache"


@dataclass(frozen=True, slots=True)
class Origin:
    source: str
    """The model's files, the engine's version, or a measurement."""
    in_budget: bool | None = None
    """Whether the engine subtracts the term before it sizes the KV cache; None for terms that it always subtracts."""
    parts: tuple[tuple[str, float], ...] = ()
    """Names and GiB of other parts that the term contains."""

    def __str__(self) -> str:
        place = {True: "counted in the budget", False: "outside the budget", None: ""}[self.in_budget]
        parts = (f"{gib:.2f} GiB {name}" for name, gib in self.parts)
        return "; ".join(filter(None, (place, self.source, *parts)))


@dataclass(frozen=True, slots=True)
class Term:
    name: TermName
    gib: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class Budget:
    """The memory of one GPU, in GiB unless stated otherwise."""

    memory: float
    utilization: float
    weights: float
    activation: float
    context_memory: float
    """Memory outside PyTorch: the CUDA context and the buffers of collective operations."""
    graphs: float
    kv_cache: float
    """The remaining memory; negative if the other terms do not fit."""
    context: int
    max_num_seqs: int
    max_num_batched_tokens: int
    outside: float
    """Memory used in addition to what the engine may use: CUDA graphs that the engine does not count, and warm-up."""
    kv_needed: float = 0.0
    """KV cache of one sequence of the longest context."""
    kv_token_bytes: float = 0.0
    """Bytes of one more token."""
    kv_tokens: int = 0
    """Capacity in tokens, as the engine reports it."""
    concurrency: float = 0.0
    """Sequences of the longest context that fit at once."""
    typical_concurrency: float = 0.0
    """Sequences of `TYPICAL_TOKENS` that fit at once."""
    terms: tuple[Term, ...] = ()
    state_block_gib: float = 0.0
    """KV cache of one block of states, if the engine starts only with one for each sequence of a batch; otherwise 0."""
    whole_encoder: bool = False
    recipe_cache: str = ""
    """The type of the KV cache, where it is that of the model's recipe; otherwise empty."""
    spare: float = SPARE
    """Fraction of the memory that stays free where sizing chooses a size."""
    pinned: float = 0.0
    """Memory of the host that each rank pins for the tokens of its requests."""

    @property
    def spare_gib(self) -> float:
        return self.spare * self.memory

    @property
    def offered(self) -> float:
        return self.memory * self.utilization

    @property
    def graphs_in_budget(self) -> float:
        return sum(term.gib for term in self.terms if term.name is TermName.CUDA_GRAPHS and term.origin.in_budget)

    @property
    def needed(self) -> float:
        return self.offered - self.kv_cache + self.kv_needed

    @property
    def headroom(self) -> float:
        """KV cache beyond one sequence of the longest context; negative if there is too little."""
        return self.kv_cache - self.kv_needed

    @property
    def states_headroom(self) -> float:
        """KV cache beyond the blocks of states without which the engine does not start."""
        return self.kv_cache - self.max_num_seqs * self.state_block_gib

    @property
    def outside_headroom(self) -> float:
        return self.memory - self.offered - self.outside

    @property
    def typical_beside_longest(self) -> float:
        return self.typical_concurrency * (1 - 1 / self.concurrency) if self.concurrency > 1 else 0.0

    @property
    def fits(self) -> bool:
        return self.kv_cache > 0 and min(self.headroom, self.states_headroom, self.outside_headroom) >= 0

    def typical(self, sequences: int) -> bool:
        return self.typical_concurrency >= sequences


class EngineOnGpus(Protocol):
    """One kind of engine on the GPUs of one offer: what it can run there, and how it uses their memory.

    By default it has kernels for each type of tensor, no measured speed, and gets all sizes as arguments.
    """

    def unable(self, facts: ModelFacts, shape: Shape) -> str | None:
        """Why these GPUs cannot compute the model, in a sentence; None if they can."""
        return None

    def broken_rule(self, facts: ModelFacts, shape: Shape) -> str | None:
        """Why the model does not allow the parallel sizes of a shape, in one sentence; None if it does."""

    def allowed_sizes(self, facts: ModelFacts, shape: Shape, at_most: int) -> tuple[int, ...]:
        """The tensor parallel sizes that sizing tries: those up to `at_most` that the model allows."""

    def budget(self, facts: ModelFacts, shape: Shape) -> Budget:
        """The budget of one GPU; in a pipeline, of the stage with the least free memory."""

    def step_costs(self, facts: ModelFacts, shape: Shape) -> StepCosts | None:
        """The seconds of the parts of a step; None if the GPU's speed is unknown."""
        return None

    def left_to_engine(self, facts: ModelFacts, shape: Shape, budget: Budget, inputs: SizingInputs) -> tuple[str, ...]:
        """The sizes that are not requested and that the engine derives itself, by their names in `spec.engine`.

        Args:
            shape: the shape that was chosen, with None where the engine's default applies.
        """
        return ()
