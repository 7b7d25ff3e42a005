"""Memory of llama.cpp: weights as they are in the file, a KV cache for all slots, and one buffer for a batch.

1. The KV cache is allocated at the start, for each slot the whole context, in 16 bits (llama.cpp 0.7.0,
   `src/llama-kv-cache.cpp`). A context is padded to 256 tokens.
2. The buffer holds the activations of a batch (`ubatch`): most of it are its logits, in 32 bits
   (`src/llama-context.cpp`, `graph_reserve`). Flash attention needs no scores of all tokens.
3. Several GPUs divide the layers, of which the output counts as one (`src/llama-model.cpp`), and with them weights and
   KV cache. Each has a buffer.

No GPU was measured.
"""

import math
from dataclasses import dataclass

from inference_operator.engines.llama_cpp.options import VERSION
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import Budget, EngineOnGpus, Origin, Term, TermName
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.fitting import LEAST_CONTEXT, TYPICAL_REQUESTS
from inference_operator.sizing.shape import Shape
from inference_operator.units import GIB

SLOTS_ON_GPUS, SLOTS_ON_CPUS = TYPICAL_REQUESTS, 4
BATCH, LOGICAL_BATCH = 512, 2048
"""Defaults of `--ubatch-size` and `--batch-size` (common/common.h)."""
PADDING = 256
KV_BYTES, LOGIT_BYTES = 2, 4
"""Bytes of an element of the KV cache (f16), and of a logit (f32)."""
HIDDEN_COPIES, WIDE_COPIES = 4, 3
"""Activations of a token that live at once: residual, norm, attention and its output; gate, up and their product."""
CUDA_GIB = 0.6
"""CUDA's context and cuBLAS's workspace, as of vLLM (`engines/vllm/memory.py`)."""
CPU_GIB = 0.25
"""Memory of the process without weights, KV cache and buffer. Measured: 0.05 GiB with 517 threads (VmRSS)."""
UNKNOWN_GIB = 4
"""Memory for a model about which nothing is known."""
ORIGIN = f"llama.cpp {VERSION}"


@dataclass(frozen=True, slots=True)
class Sizes:
    context: int
    """Tokens of a slot."""
    slots: int
    batch: int
    """Tokens of one forward pass (`--ubatch-size`)."""

    @classmethod
    def of(cls, shape: Shape, context: int, slots: int) -> "Sizes":
        return cls(
            shape.context or context, shape.max_num_seqs or slots, min(shape.max_num_batched_tokens or BATCH, BATCH)
        )

    @property
    def cached_tokens(self) -> int:
        return self.slots * math.ceil(self.context / PADDING) * PADDING


def token_bytes(facts: ModelFacts) -> int:
    """Bytes of a token in the KV cache of all layers.

    Examples:
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.entry import entry_facts
        >>> token_bytes(entry_facts(entry("Qwen/Qwen3-8B")))  # 36 layers, 8 heads, keys and values of 128
        147456
    """
    return sum(group.layers * group.kv_heads * group.elements for group in facts.groups) * KV_BYTES


def buffer_gib(facts: ModelFacts, batch: int) -> float:
    activations = HIDDEN_COPIES * facts.hidden_size + WIDE_COPIES * facts.intermediate_size
    return batch * LOGIT_BYTES * (facts.vocabulary + activations) / GIB


@dataclass(frozen=True, slots=True)
class OnGpus(EngineOnGpus):
    memory_gib: float
    reported_gib: float = 0.0

    def broken_rule(self, facts: ModelFacts, shape: Shape) -> str | None:
        if shape.parallel.pipeline != 1:
            return "llama.cpp divides layers by `spec.parallelism.tensor` alone."
        if shape.parallel.tensor > facts.layers:
            return f"The model has {facts.layers} layers, and each GPU needs one."
        return None

    def allowed_sizes(self, facts: ModelFacts, shape: Shape, at_most: int) -> tuple[int, ...]:  # noqa: ARG002 - protocol
        """Any number of GPUs up to that of layers."""
        return tuple(range(1, min(at_most, facts.layers) + 1))

    def budget(self, facts: ModelFacts, shape: Shape) -> Budget:
        sizes = Sizes.of(shape, facts.context, SLOTS_ON_GPUS)
        ranks = shape.parallel.tensor
        share = min(facts.layers, math.ceil((facts.layers + 1) / ranks)) / facts.layers
        weights = facts.weight_bytes / GIB * share
        activation = buffer_gib(facts, sizes.batch) + self.reported_gib
        left = self.memory_gib - CUDA_GIB - weights - activation
        token = token_bytes(facts) * share
        cache = sizes.cached_tokens * token / GIB
        fitting = max(0.0, left / cache) if cache else float(left > 0)
        return Budget(
            memory=self.memory_gib,
            utilization=1.0,
            weights=weights,
            activation=activation,
            context_memory=CUDA_GIB,
            graphs=0.0,
            kv_cache=left,
            context=sizes.context,
            max_num_seqs=sizes.slots,
            max_num_batched_tokens=shape.max_num_batched_tokens or LOGICAL_BATCH,
            outside=0.0,
            kv_needed=cache,
            kv_token_bytes=token,
            kv_tokens=sizes.cached_tokens,
            concurrency=sizes.slots * min(1.0, fitting),
            typical_concurrency=float(sizes.slots) if fitting >= 1 else 0.0,
            terms=(
                Term(TermName.WEIGHTS, weights, Origin(facts.weights_from)),
                Term(TermName.ACTIVATION, activation, Origin(ORIGIN)),
                Term(TermName.NON_TORCH, CUDA_GIB, Origin(ORIGIN)),
                Term(TermName.KV_CACHE, left, Origin("what is left")),
            ),
        )


def cpu_needs(facts: ModelFacts | None, shape: Shape) -> CpuNeeds:
    if facts is None:
        return CpuNeeds(shape.context or LEAST_CONTEXT, 0, UNKNOWN_GIB)
    sizes = Sizes.of(shape, min(facts.context, LEAST_CONTEXT), SLOTS_ON_CPUS)
    cache = sizes.cached_tokens * token_bytes(facts)
    total = CPU_GIB + buffer_gib(facts, sizes.batch) + (cache + facts.weight_bytes) / GIB
    return CpuNeeds(sizes.context, cache, math.ceil(total))
