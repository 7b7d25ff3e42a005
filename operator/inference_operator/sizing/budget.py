"""The memory budget of one GPU: what the engine may use, what each term takes, and what remains for the KV cache.

    KV cache = memory * utilization - weights - activation - context - graphs (where the engine counts them)

The formula is vLLM's own. It holds within 0.05 GiB for every published start-up that logs all of its terms.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.sizing.activation import activation_gib, batched_tokens, graphs_gib, sequences
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.kv_cache import cache_layout, held
from inference_operator.sizing.lora_and_speculative import adapters_gib, draft_gib
from inference_operator.sizing.shape import Shape
from inference_operator.sizing.weights import rank_weights
from inference_operator.units import GIB

TYPICAL_TOKENS = 2048
"""Tokens of a typical request, prompt and answer together (architecture 4.10)."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU."""

    name: str
    memory_gib: float
    """Total memory as CUDA reports it."""
    linked: bool = True


class TermName(StrEnum):
    """The terms of the budget, as users read them."""

    WEIGHTS = "weights"
    ACTIVATION = "activation"
    NON_TORCH = "non-torch"
    CUDA_GRAPHS = "CUDA graphs"
    KV_CACHE = "KV cache"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a term comes from.

    Examples:
        >>> str(Origin("vLLM 0.32.0", in_budget=True)), str(Origin("config.json", parts=(("adapters", 0.5),)))
        ('counted in the budget; vLLM 0.32.0', 'config.json; 0.50 GiB adapters')
    """

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
    """One term of the budget, in GiB."""

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
    """Longest sequence in tokens."""
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
    """The terms of the budget with their origins."""

    @property
    def offered(self) -> float:
        """What the engine may use."""
        return self.memory * self.utilization

    @property
    def graphs_in_budget(self) -> float:
        """Memory of the CUDA graphs that the engine subtracts before it sizes the KV cache."""
        return sum(term.gib for term in self.terms if term.name is TermName.CUDA_GRAPHS and term.origin.in_budget)

    @property
    def needed(self) -> float:
        """Memory of all terms with the KV cache of one sequence of the longest context."""
        return self.offered - self.kv_cache + self.kv_needed

    @property
    def headroom(self) -> float:
        """KV cache beyond one sequence of the longest context; negative if there is too little."""
        return self.kv_cache - self.kv_needed

    @property
    def outside_headroom(self) -> float:
        """Free memory outside of what the engine may use."""
        return self.memory - self.offered - self.outside

    @property
    def fits(self) -> bool:
        """Whether the engine would start."""
        return self.kv_cache > 0 and self.headroom >= 0 and self.outside_headroom >= 0

    def typical(self, sequences: int) -> bool:
        """Whether this number of typical requests fits at once."""
        return self.typical_concurrency >= sequences


def budget(facts: ModelFacts, gpu: Gpu, engine: EngineMemory, shape: Shape) -> Budget:
    """The budget of one GPU for a model and a shape; in a pipeline, of the stage with the least free memory.

    Examples:
        >>> from inference_operator.engines.vllm.memory import vllm_memory
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.model import model_facts
        >>> from inference_operator.sizing.shape import ParallelSizes
        >>> known = entry("meta-llama/Meta-Llama-3.1-70B")
        >>> facts, gpu = model_facts(known.config, known.weights), Gpu("H100-80GB", 79.19)
        >>> pair = Shape(ParallelSizes(2), context=8192, utilization=0.95)
        >>> round(budget(facts, gpu, vllm_memory("0.19.0", memory_gib=79.19), pair).kv_cache, 1)
        5.5
    """
    context = shape.context or facts.context
    weights, activation = _fullest_stage(facts, engine, shape, context)
    outside_torch = engine.context_gib(shape.parallel.tensor, shape.parallel.pipeline, linked=gpu.linked)
    graphs = graphs_gib(facts, engine, shape)
    counted = graphs if engine.graphs.in_budget else 0.0
    batched = batched_tokens(facts, engine, shape, context)
    kernels = engine.unprofiled_mxfp4_bytes * batched / GIB if facts.quantization.kernel is Kernel.MXFP4 else 0.0
    used = weights + activation + outside_torch + counted
    utilization = shape.utilization or engine.utilization
    if shape.kv_cache_bytes:  # the engine then ignores its utilization
        utilization = (used + shape.kv_cache_bytes / GIB) / gpu.memory_gib
    found = Budget(
        memory=gpu.memory_gib,
        utilization=utilization,
        weights=weights,
        activation=activation,
        context_memory=outside_torch,
        graphs=graphs,
        kv_cache=gpu.memory_gib * utilization - used,
        context=context,
        max_num_seqs=sequences(engine, shape),
        max_num_batched_tokens=batched,
        outside=kernels + graphs - counted,
    )
    return _with_cache(found, facts, engine, shape)


def _fullest_stage(facts: ModelFacts, engine: EngineMemory, shape: Shape, context: int) -> tuple[float, float]:
    """Weights and activations of the pipeline stage with the largest sum of both, in GiB."""
    stages, adapters, draft = rank_weights(facts, shape), adapters_gib(facts, shape), draft_gib(facts, shape)
    found = []
    for index, one in enumerate(stages):
        ends = index == len(stages) - 1
        weights = max(0.0, one.bytes / GIB - shape.cpu_offload_gib) + adapters + (draft if ends else 0.0)
        found.append((weights, activation_gib(facts, engine, shape, context, ends=ends)))
    weights, activation = max(found, key=sum)
    return weights, activation


def _with_cache(found: Budget, facts: ModelFacts, engine: EngineMemory, shape: Shape) -> Budget:
    """The budget with the capacity of the KV cache."""
    found = replace(found, terms=_terms(found, facts, engine, shape))
    if facts.is_encoder:  # no cache limits its sequences
        return replace(found, concurrency=found.max_num_seqs, typical_concurrency=found.max_num_seqs)
    layout, batched = cache_layout(facts, engine, shape), found.max_num_batched_tokens
    cache = held(layout, engine, size=found.kv_cache * GIB, context=found.context, batched=batched)
    return replace(
        found,
        kv_needed=layout.blocks(found.context, batched) * layout.unit_bytes / GIB,
        kv_token_bytes=layout.token_bytes,
        kv_tokens=cache.tokens,
        concurrency=cache.concurrency,
        typical_concurrency=cache.blocks / layout.blocks(min(TYPICAL_TOKENS, found.context), batched),
    )


def _terms(found: Budget, facts: ModelFacts, engine: EngineMemory, shape: Shape) -> tuple[Term, ...]:
    other_parts = {"adapters": adapters_gib(facts, shape), "for speculative decoding": draft_gib(facts, shape)}
    parts = tuple((name, gib) for name, gib in other_parts.items() if gib)
    return (
        Term(TermName.WEIGHTS, found.weights, Origin(facts.weights_from, parts=parts)),
        Term(TermName.ACTIVATION, found.activation, Origin(engine.origin)),
        Term(TermName.NON_TORCH, found.context_memory, Origin(engine.origin)),
        Term(TermName.CUDA_GRAPHS, found.graphs, Origin(engine.origin, in_budget=engine.graphs.in_budget)),
        Term(TermName.KV_CACHE, found.kv_cache, Origin("what is left")),
    )
