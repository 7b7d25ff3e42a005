"""Memory of an engine on CPUs: the operator sets the size of its KV cache, and computes the rest.

By default vLLM takes 92 % of the node's memory for the KV cache, and does not start if that is not free (0.32.0,
`v1/worker/cpu_worker.py`).
"""

import math
from dataclasses import dataclass

from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.activation import activation_gib, batched_tokens
from inference_operator.sizing.budget import TYPICAL_TOKENS
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.fitting import TYPICAL_REQUESTS, USUAL_CONTEXT
from inference_operator.sizing.kv_cache import cache_layout
from inference_operator.sizing.lora_and_speculative import adapters_gib, draft_gib, kept_adapters_gib
from inference_operator.sizing.shape import Shape
from inference_operator.units import GIB

BASE_GIB = 2.0
"""Memory of all processes of a rank without weights and KV cache. Measured: 1.2 to 1.9 GiB, most of it with MLA
(`python -m bench.cpu_sizing`)."""
UNKNOWN_CACHE_BYTES = 4 * GIB
"""KV cache of an unknown model: vLLM's default before it became a fraction of the node's memory (v0.9.2,
`platforms/cpu.py`)."""


@dataclass(frozen=True, slots=True)
class CpuNeeds:
    context: int | None
    """Longest sequence in tokens; None: the model's own."""
    cache_bytes: int
    """Size of the KV cache of each rank."""
    memory_gib: int
    """Memory of all processes of a pod of the engine. It has a pod on each of its nodes."""


def cpu_needs(facts: ModelFacts | None, engine: EngineMemory, shape: Shape) -> CpuNeeds:
    """The memory of an engine, with a KV cache for one sequence of the longest context and for the typical requests.

    Over several nodes each pod is counted with the whole weights, as if it had every stage: it never has more.
    """
    ranks = shape.parallel.ranks_per_node
    if facts is None:
        cache = shape.kv_cache_bytes or UNKNOWN_CACHE_BYTES
        return CpuNeeds(shape.context, cache, math.ceil(ranks * (BASE_GIB + cache / GIB) + shape.kv_offload_gib))
    context = shape.context or min(facts.context, USUAL_CONTEXT)
    layout = cache_layout(facts, engine, shape)
    batched = batched_tokens(facts, engine, shape, context)
    typical = TYPICAL_REQUESTS * layout.blocks(min(TYPICAL_TOKENS, context), batched)
    blocks = max(layout.blocks(context, batched), typical) + 1  # vLLM reserves one (0.32.0, `v1/core/block_pool.py`)
    cache = shape.kv_cache_bytes or math.ceil(blocks * layout.unit_bytes)
    activation = activation_gib(facts, engine, shape, context, ends=True)
    each = BASE_GIB + activation + cache / GIB + adapters_gib(facts, shape) + draft_gib(facts, shape)
    shared = shape.kv_offload_gib + kept_adapters_gib(facts, shape)
    return CpuNeeds(context, cache, math.ceil(ranks * each + facts.weight_bytes / GIB + shared))
