"""Memory of `transformers serve`, on one GPU and on CPUs, and the architectures it computes in batches.

With continuous batching (transformers 5.19.0, generation/continuous_batching/cache.py, `PagedAttentionMemoryHandler`):

    available = share * (memory - weights)
    available = KV cache + activation
    activation = two pages for padding
               + rows of logits, one for each sequence: hidden state and float32 logits
               + for each token of a batch: hidden state, query, keys and values, and their copy for all heads
               + for each token of the KV cache: its copy for all heads, and its index
               + the attention mask: tokens of a batch times tokens that can be read

Without it the library allocates keys and values as a request grows. They are counted like a KV cache for one request.
All of a model is on one device: the command divides none.

`python -m e2e.engines.architectures` writes the table of architectures inside the engine's image: it makes a small
model of each, and compares the answers of continuous batching with those of `generate`.
"""

import math
from dataclasses import dataclass

from inference_operator.engines.model_access import Support
from inference_operator.models.facts import Attention, Kernel, ModelFacts
from inference_operator.sizing.budget import TYPICAL_TOKENS, Budget, EngineOnGpus, Origin, Term, TermName
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.fitting import TYPICAL_REQUESTS, USUAL_CONTEXT
from inference_operator.sizing.shape import Shape
from inference_operator.text_tables import rows
from inference_operator.units import GIB

VERSION = "5.19.0"
BATCHED = "batched"
_MODES: dict[str, str] = dict(rows(__package__, f"architectures-{VERSION}.txt"))
_COMMON = "There are no adapters, no sizes over several GPUs, no log probabilities and no stop strings."


def support(architecture: str) -> Support:
    mode = _MODES.get(architecture)
    if mode is None and architecture:
        version = VERSION.rpartition(".")[0]
        return Support(f"Transformers {version} serves text models only, and knows no `{architecture}` among them.")
    if mode == BATCHED:
        return Support(implementation=BATCHED, lost=f"Transformers computes fewer tokens per second. {_COMMON}")
    why = "Transformers computes this architecture" if mode else "Nothing is known about the model, so it is computed"
    return Support(lost=f"{why} one request at a time; others wait in the router. {_COMMON}")


PAGE_TOKENS = 256
"""Tokens of a page (`generation/configuration_utils.py`, `ContinuousBatchingConfig`)."""
PADDING_PAGES = 2
SHARE = 0.8
"""Part of the free memory that the library takes where it processes logits (`initialization.py`)."""
SEQUENCES_ON_GPUS, SEQUENCES_ON_CPUS = 128, 32
BATCH_ON_GPUS, BATCH_ON_CPUS = 2048, 512
"""Tokens of a batch. The library's own 8,192 make an attention mask of 8,192 times all tokens of the cache."""
INDEX_BYTES, LOGIT_BYTES = 8, 4
"""Bytes of a position in the cache (int64), and of a logit (float32)."""
CUDA_GIB = 0.6
"""CUDA's context and the libraries' own buffers, beside what PyTorch allocates (as of vLLM 0.32, `engines/vllm/memory`,
with cuBLAS's workspaces)."""
CPU_GIB = 1.0
"""Memory of the process without weights and KV cache. Measured: 0.5 GiB (`python -m bench.engines`)."""
UNKNOWN_CACHE_GIB, UNKNOWN_CONTEXT = 1, 4096
"""KV cache and context for a model about which nothing is known."""
ORIGIN = f"transformers {VERSION}"


def sequences_of(supported: Support, asked: int | None, *, on_gpus: bool) -> int:
    """Requests that are computed at once: those asked for or the default with continuous batching, one without it."""
    if supported.implementation != BATCHED:
        return 1
    return asked or (SEQUENCES_ON_GPUS if on_gpus else SEQUENCES_ON_CPUS)


@dataclass(frozen=True, slots=True)
class TokenBytes:
    cached: float
    """Of the KV cache, for each token that it holds."""
    readable: float
    """Of activations, for each token that the KV cache holds."""
    batched: float
    """Of activations, for each token of a batch."""
    row: float
    """Of activations, for each sequence: one row of logits."""
    masks: int
    """Attention masks: one, and another with sliding windows."""
    element: int
    """Of an element of the attention mask."""

    @classmethod
    def of(cls, facts: ModelFacts, shape: Shape) -> "TokenBytes":
        element = shape.element_bytes or facts.element_bytes
        groups = [group for group in facts.groups if group.attention is not Attention.STATE]
        head = max((group.elements / 2 for group in groups), default=0.0)
        peak_heads = 2 * facts.heads + facts.kv_heads  # keys and values are repeated for all heads
        return cls(
            cached=sum(group.layers * group.kv_heads * group.elements * element for group in groups),
            readable=peak_heads * head * element + INDEX_BYTES,
            batched=element * (facts.hidden_size + head * (facts.heads + 2 * facts.kv_heads + peak_heads)),
            row=facts.hidden_size * element + facts.vocabulary * LOGIT_BYTES,
            masks=2 if any(group.attention is Attention.SLIDING for group in groups) else 1,
            element=element,
        )

    def activation_gib(self, *, cached: float, batch: int, sequences: int) -> float:
        padding = PADDING_PAGES * PAGE_TOKENS * self.cached
        mask = self.masks * self.element * batch * (cached + batch)
        return (padding + sequences * self.row + batch * self.batched + cached * self.readable + mask) / GIB

    def cached_tokens(self, available_gib: float, *, batch: int, sequences: int) -> float:
        fixed = self.activation_gib(cached=0, batch=batch, sequences=sequences)
        each = self.cached + self.readable + self.masks * self.element * batch
        return max(0.0, (available_gib - fixed) * GIB / each)


@dataclass(frozen=True, slots=True)
class OnOneGpu(EngineOnGpus):
    memory_gib: float
    reported_gib: float = 0.0

    def unable(self, facts: ModelFacts, shape: Shape) -> str | None:  # noqa: ARG002 - protocol
        if facts.quantization.kernel is Kernel.NONE:
            return None
        return f"Transformers has no kernels for weights that are quantized as {facts.quantization.kernel.value}."

    def broken_rule(self, facts: ModelFacts, shape: Shape) -> str | None:  # noqa: ARG002 - protocol
        return None if shape.parallel.world_size == 1 else "Transformers divides no model over several GPUs."

    def allowed_sizes(self, facts: ModelFacts, shape: Shape, at_most: int) -> tuple[int, ...]:  # noqa: ARG002 - protocol
        return (1,) if at_most else ()

    def budget(self, facts: ModelFacts, shape: Shape) -> Budget:
        context, tokens = shape.context or facts.context, TokenBytes.of(facts, shape)
        mode = support(facts.architecture)
        sequences = sequences_of(mode, shape.max_num_seqs, on_gpus=True)
        batch = shape.max_num_batched_tokens or BATCH_ON_GPUS
        weights = facts.weight_bytes / GIB
        utilization = min(1.0, (weights + SHARE * max(0.0, self.memory_gib - weights)) / self.memory_gib)
        available = self.memory_gib * utilization - weights - self.reported_gib
        cached = tokens.cached_tokens(available, batch=batch, sequences=sequences)
        cache = cached * tokens.cached / GIB
        least = tokens.activation_gib(cached=0, batch=batch, sequences=sequences)
        activation = (available - cache if cached else least) + self.reported_gib
        left = self.memory_gib * utilization - weights - activation
        return Budget(
            memory=self.memory_gib,
            utilization=utilization,
            weights=weights,
            activation=activation,
            context_memory=0.0,
            graphs=0.0,
            kv_cache=left,
            context=context,
            max_num_seqs=sequences,
            max_num_batched_tokens=batch,
            outside=CUDA_GIB,
            kv_needed=_whole_pages(context) * tokens.cached / GIB,
            kv_token_bytes=tokens.cached,
            kv_tokens=int(cached),
            concurrency=cached / _whole_pages(context),
            typical_concurrency=cached / _whole_pages(min(TYPICAL_TOKENS, context)),
            terms=(
                Term(TermName.WEIGHTS, weights, Origin(facts.weights_from)),
                Term(TermName.ACTIVATION, activation, Origin(ORIGIN)),
                Term(TermName.KV_CACHE, left, Origin("what is left")),
            ),
        )


def _whole_pages(tokens: int) -> int:
    return math.ceil(tokens / PAGE_TOKENS) * PAGE_TOKENS


def cpu_needs(facts: ModelFacts | None, shape: Shape) -> CpuNeeds:
    """The memory on CPUs, with a KV cache for one request of the longest context and for the typical requests."""
    if facts is None:
        cache_bytes = shape.kv_cache_bytes or UNKNOWN_CACHE_GIB * GIB
        return CpuNeeds(shape.context or UNKNOWN_CONTEXT, cache_bytes, math.ceil(2 * CPU_GIB + cache_bytes / GIB))
    context, tokens = shape.context or min(facts.context, USUAL_CONTEXT), TokenBytes.of(facts, shape)
    mode = support(facts.architecture)
    sequences = sequences_of(mode, shape.max_num_seqs, on_gpus=False)
    typical = min(sequences, TYPICAL_REQUESTS) * _whole_pages(min(TYPICAL_TOKENS, context))
    cached = max(_whole_pages(context), typical)
    cache = shape.kv_cache_bytes or math.ceil(cached * tokens.cached)
    batch = shape.max_num_batched_tokens or BATCH_ON_CPUS
    activation = tokens.activation_gib(cached=cached, batch=batch, sequences=sequences)
    return CpuNeeds(context, cache, math.ceil(CPU_GIB + activation + (cache + facts.weight_bytes) / GIB))
