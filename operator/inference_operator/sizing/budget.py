"""The arithmetic of one GPU: what is offered, what everything takes, what is left for the KV cache.

    KV cache = memory * utilization - weights - activation - context - graphs (where the engine counts them)

The identity is the engine's own; it closes within 0.05 GiB on every published start-up that prints all of its terms.
"""

from dataclasses import dataclass, replace

from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.sizing.activation import activation_gib, batched_tokens, graphs_gib, sequences
from inference_operator.sizing.beside import adapters_gib, guess_gib
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.kv_cache import cache_layout, held
from inference_operator.sizing.shape import Shape
from inference_operator.sizing.weights import rank_weights

GIB = 2**30
TYPICAL_TOKENS = 2048
"""Length of a typical request, prompt and answer together (architecture 4.10)."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """The GPU that the arithmetic is about."""

    name: str
    memory_gib: float
    """All of it, as CUDA reports it."""
    linked: bool = True


@dataclass(frozen=True, slots=True)
class Term:
    """One number of the arithmetic."""

    name: str
    gib: float
    origin: str
    """Where it comes from: the model's config, the engine's version, or a measurement."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The memory of one GPU, in GiB unless said otherwise."""

    memory: float
    utilization: float
    weights: float
    activation: float
    context_memory: float
    """Outside PyTorch: the CUDA context and buffers of collective operations."""
    graphs: float
    kv_cache: float
    """What is left; below 0 where the rest does not fit."""
    context: int
    """Longest sequence in tokens."""
    max_num_seqs: int
    max_num_batched_tokens: int
    outside: float
    """What is used beyond the part that the engine may use: graphs that it does not count, and warm-up."""
    kv_needed: float = 0.0
    """What one sequence of full length takes."""
    kv_token_bytes: float = 0.0
    """What a token adds."""
    kv_tokens: int = 0
    """As the engine reports them."""
    concurrency: float = 0.0
    """Sequences of full length that fit at once."""
    typical_concurrency: float = 0.0
    """Sequences of `TYPICAL_TOKENS` that fit at once."""
    terms: tuple[Term, ...] = ()
    """The numbers that make up the budget, with their origins."""

    @property
    def offered(self) -> float:
        """What the engine may use."""
        return self.memory * self.utilization

    @property
    def needed(self) -> float:
        """What it takes with room for one sequence of full length."""
        return self.offered - self.kv_cache + self.kv_needed

    @property
    def headroom(self) -> float:
        """What is left beyond one sequence of full length; below 0: short by so much."""
        return self.kv_cache - self.kv_needed

    @property
    def outside_headroom(self) -> float:
        """What is left of the part that the engine does not count."""
        return self.memory - self.offered - self.outside

    @property
    def fits(self) -> bool:
        """Whether the engine would start."""
        return self.kv_cache > 0 and self.headroom >= 0 and self.outside_headroom >= 0

    def typical(self, sequences: int) -> bool:
        """Whether so many typical sequences fit at once."""
        return self.typical_concurrency >= sequences


def budget(facts: ModelFacts, gpu: Gpu, engine: EngineMemory, shape: Shape) -> Budget:
    """What one GPU holds when a model is run so; of a pipeline, the stage that has least room.

    Examples:
        >>> from inference_operator.engines.vllm.memory import vllm_memory
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.model import model_facts
        >>> known = entry("Qwen/Qwen2.5-72B-Instruct")
        >>> facts, gpu = model_facts(known.config, known.weights), Gpu("H100-80GB", 79.19)
        >>> pair = Shape(tensor=2, context=8192, utilization=0.95)
        >>> round(budget(facts, gpu, vllm_memory("0.19.0", memory_gib=79.19), pair).kv_cache, 1)
        3.0
    """
    context = shape.context or facts.context
    weights, activation = _fullest_stage(facts, engine, shape, context)
    outside_torch = engine.context_gib(shape.tensor, shape.pipeline, linked=gpu.linked)
    graphs = graphs_gib(facts, engine, shape)
    counted = graphs if engine.graphs.in_budget else 0.0
    batched = batched_tokens(engine, shape, context)
    kernels = engine.unprofiled_mxfp4_bytes * batched / GIB if facts.quantization.kernel is Kernel.MXFP4 else 0.0
    used = weights + activation + outside_torch + counted
    utilization = shape.utilization or engine.utilization
    if shape.kv_cache_bytes:  # the engine then takes so much, whatever part of the GPU that is
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
    """Weights and activations of the stage with most of both, in GiB."""
    stages, adapters, guess = rank_weights(facts, shape), adapters_gib(facts, shape), guess_gib(facts, shape)
    found = []
    for index, one in enumerate(stages):
        ends = index == len(stages) - 1
        weights = max(0.0, one.bytes / GIB - shape.cpu_offload_gib) + adapters + (guess if ends else 0.0)
        found.append((weights, activation_gib(facts, engine, shape, context, ends=ends)))
    weights, activation = max(found, key=sum)
    return weights, activation


def _with_cache(found: Budget, facts: ModelFacts, engine: EngineMemory, shape: Shape) -> Budget:
    """The same with what the cache holds."""
    layout, batched = cache_layout(facts, engine, shape), found.max_num_batched_tokens
    cache = held(layout, engine, size=found.kv_cache * GIB, context=found.context, batched=batched)
    return replace(
        found,
        kv_needed=layout.blocks(found.context, batched) * layout.unit_bytes / GIB,
        kv_token_bytes=layout.token_bytes,
        kv_tokens=cache.tokens,
        concurrency=cache.concurrency,
        typical_concurrency=cache.blocks / layout.blocks(min(TYPICAL_TOKENS, found.context), batched),
        terms=_terms(found, facts, engine, shape),
    )


def _terms(found: Budget, facts: ModelFacts, engine: EngineMemory, shape: Shape) -> tuple[Term, ...]:
    beside = {"adapters": adapters_gib(facts, shape), "for guessing tokens": guess_gib(facts, shape)}
    told = "".join(f"; {gib:.2f} GiB {what}" for what, gib in beside.items() if gib)
    counted = "counted in the budget" if engine.graphs.in_budget else "outside the budget"
    return (
        Term("weights", found.weights, facts.weights_from + told),
        Term("activation", found.activation, engine.origin),
        Term("non-torch", found.context_memory, engine.origin),
        Term("CUDA graphs", found.graphs, f"{counted}; {engine.origin}"),
        Term("KV cache", found.kv_cache, "what is left"),
    )
