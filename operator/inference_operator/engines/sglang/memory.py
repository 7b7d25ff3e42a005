"""Memory of SGLang on GPUs (0.5.23).

1. The KV cache gets a fraction f of what was free before the weights were loaded, without the weights:
   KV = f * free before - weights (`srt/mem_cache/kv_cache_configurator.py`, `_profile_available_bytes`).
2. Activations and CUDA graphs live in the rest. Its default size does not depend on the model; it is SGLang's own
   estimate (`srt/arg_groups/memory_hook.py`, `handle_gpu_memory_settings`, `reserve_for_graph_mb`). A fraction that
   the user sets must leave room for the graphs.
3. Every layer that attends to tokens caches all of them. SGLang keeps less for layers with a window, so this is an
   upper bound.
4. With data parallel attention, each group of ranks has whole attention and caches for its own requests; experts are
   divided among all ranks. Dense layers are counted as whole in each group, which is an upper bound.

Public logs of starts agree with the first formula within 0.02 GiB (tests/engines/test_sglang.py). No GPU was measured.
"""

import math
from dataclasses import dataclass, replace

from inference_operator.engines.sglang.options import VERSION
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import Attention, ModelFacts
from inference_operator.sizing.budget import TYPICAL_TOKENS, Budget, Origin, Term, TermName
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.gpu_support import GpuSupport
from inference_operator.sizing.kv_cache import CacheReads, layer_token_bytes
from inference_operator.sizing.rules import allowed_sizes, broken_rule
from inference_operator.sizing.shape import (
    BATCHED_TOKENS,
    CONTEXT,
    KV_BYTES,
    ParallelSizes,
    Shape,
    SizingInputs,
    context_left,
)
from inference_operator.sizing.step_costs import step_costs
from inference_operator.sizing.steptime import Overhead, StepCosts
from inference_operator.sizing.weights import rank_weights
from inference_operator.units import GIB

SEQUENCES, LARGEST_GRAPH = 256, 512
"""Requests that are computed at once by default: the largest batch with a CUDA graph on one GPU of 80 GB. Graphs are
captured for more requests only up to the second number, which is the largest default."""
CHUNKS: tuple[tuple[float, int], ...] = ((20, 2048), (60, 4096), (160, 8192), (math.inf, 16384))
"""Tokens of a chunk of a prompt by default, for GPUs of less than so many GiB."""
LEAST_CHUNK = 2048
BASE_MIB, TOKEN_MIB, RANK_MIB, GRAPH_MIB = 512, 1.5, 128, 2
"""Terms of the reserve: always, for each token of a chunk, for each rank, for each request of the largest graph."""
GROUP_GRAPH_MIB, MANY_REQUESTS = (3, 4.5), 300
"""With data parallel attention, for each request and group; the second number for graphs of more requests."""
PREFILL_MIB, LATENT_PREFILL_MIB = 8 * 74, 1536
"""Graphs of prompts: 8 MiB for each of at most 74 sizes, or the amount for latent attention."""
LARGE_GIB, LARGE_RESERVE_MIB = 60, 10 * 1024
"""Least reserve of larger GPUs."""
CONTEXT_GIB, GROUP_GIB = 0.6, 2.01
"""Memory before the weights are loaded, of one GPU and of each in a group: CUDA's context, as of vLLM
(`engines/vllm/memory.py`), and with the buffers of NCCL ("Init torch distributed ends. mem usage=2.01 GB" with eight
ranks, sgl-project/sglang#11716)."""
OVERHEAD = Overhead(step=1e-3, sequence=5e-6)
"""SGLang's own time in each step, taken to be that of vLLM (`engines/vllm/memory.py`)."""
ORIGIN = f"SGLang {VERSION}"
NO_STATES = "The operator does not know how SGLang divides memory between recurrent states and the KV cache."


def chunk_tokens(memory_gib: float) -> int:
    return next(tokens for below, tokens in CHUNKS if memory_gib < below)


def token_bytes(facts: ModelFacts, shape: Shape) -> float:
    """Bytes of one token in the KV cache of one rank.

    Examples:
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.entry import entry_facts
        >>> qwen = entry_facts(entry("Qwen/Qwen3-8B"))  # 36 layers, 8 heads, keys and values of 128
        >>> token_bytes(qwen, Shape()), token_bytes(qwen, Shape(ParallelSizes(4)))
        (147456.0, 36864.0)
    """
    element = KV_BYTES.get(shape.kv_cache_dtype) or shape.element_bytes or facts.element_bytes
    ranks = shape.parallel.tensor // shape.attention_groups
    return sum(group.layers * layer_token_bytes(group, ranks, element) for group in facts.groups)


def graphs_gib(facts: ModelFacts, shape: Shape) -> float:
    requests = min(shape.max_num_seqs or SEQUENCES, LARGEST_GRAPH)
    groups = shape.attention_groups if shape.attention_groups > 1 else 0
    of_groups = requests * groups * GROUP_GRAPH_MIB[requests > MANY_REQUESTS]
    prefill = LATENT_PREFILL_MIB if facts.uses_mla else PREFILL_MIB
    return (requests * GRAPH_MIB + of_groups + prefill) / 1024


def reserve_gib(facts: ModelFacts, shape: Shape, memory_gib: float) -> float:
    chunk = max(LEAST_CHUNK, shape.max_num_batched_tokens or chunk_tokens(memory_gib))
    mib = BASE_MIB + chunk * TOKEN_MIB + shape.parallel.tensor * RANK_MIB
    gib = mib / 1024 + graphs_gib(facts, shape)
    return max(gib, LARGE_RESERVE_MIB / 1024) if memory_gib > LARGE_GIB else gib


def cache_gib(fraction: float, free_before: float, weights: float) -> float:
    return fraction * free_before - weights


@dataclass(frozen=True, slots=True)
class SGLangOnGpus:
    gpu: GpuOffer
    reported_gib: float = 0.0

    def unable(self, facts: ModelFacts, shape: Shape) -> str | None:
        if any(group.attention is Attention.STATE for group in facts.groups):
            return NO_STATES
        return GpuSupport().unable(facts, shape, self.gpu.capability)

    def broken_rule(self, facts: ModelFacts, shape: Shape) -> str | None:
        tensor, groups = shape.parallel.tensor, shape.attention_groups
        if tensor % groups:
            return f"{tensor} GPUs cannot be divided into {groups} groups of data parallel attention."
        if shape.parallel.pipeline != 1:
            return "The operator sizes SGLang without pipelines."
        return broken_rule(facts, replace(shape, parallel=ParallelSizes(tensor // groups)))

    def allowed_sizes(self, facts: ModelFacts, shape: Shape, at_most: int) -> tuple[int, ...]:
        groups = shape.attention_groups
        return tuple(groups * size for size in allowed_sizes(facts, shape, at_most // groups))

    def budget(self, facts: ModelFacts, shape: Shape) -> Budget:
        reserve = reserve_gib(facts, shape, self.gpu.memory_gib) + self.reported_gib
        fraction = shape.utilization or max(0.0, 1 - reserve / self.gpu.memory_gib)
        own = GROUP_GIB if shape.parallel.tensor > 1 else CONTEXT_GIB
        weights = max(0.0, self._weights(facts, shape) - shape.cpu_offload_gib)
        kv = cache_gib(fraction, self.gpu.memory_gib - own, weights)
        context, token = shape.context or facts.context, token_bytes(facts, shape)
        tokens = max(0, int(kv * GIB / token)) if token else 0
        graphs = graphs_gib(facts, shape)
        activation = max(0.0, self.gpu.memory_gib * (1 - fraction) - graphs)
        return Budget(
            memory=self.gpu.memory_gib,
            utilization=fraction,
            weights=weights,
            activation=activation,
            context_memory=own * fraction,
            graphs=graphs,
            kv_cache=kv,
            context=context,
            max_num_seqs=shape.max_num_seqs or SEQUENCES,
            max_num_batched_tokens=shape.max_num_batched_tokens or chunk_tokens(self.gpu.memory_gib),
            outside=graphs,
            kv_needed=context * token / GIB,
            kv_token_bytes=token,
            kv_tokens=tokens,
            concurrency=tokens / context * shape.attention_groups,
            typical_concurrency=tokens / min(TYPICAL_TOKENS, context) * shape.attention_groups,
            terms=(
                Term(TermName.WEIGHTS, weights, Origin(facts.weights_from)),
                Term(TermName.ACTIVATION, activation, Origin(ORIGIN, in_budget=False)),
                Term(TermName.NON_TORCH, own * fraction, Origin(ORIGIN)),
                Term(TermName.CUDA_GRAPHS, graphs, Origin(ORIGIN, in_budget=False)),
                Term(TermName.KV_CACHE, kv, Origin("what is left")),
            ),
        )

    def _weights(self, facts: ModelFacts, shape: Shape) -> float:
        groups = shape.attention_groups
        parallel = ParallelSizes(shape.parallel.tensor // groups, data=groups)
        whole_experts = shape.expert_parallel or groups > 1
        return rank_weights(facts, replace(shape, parallel=parallel, expert_parallel=whole_experts))[0].bytes / GIB

    def step_costs(self, facts: ModelFacts, shape: Shape) -> StepCosts | None:
        """Those of vLLM, as an estimate: no measurement of SGLang is known. None with groups of attention."""
        if shape.attention_groups > 1:
            return None
        reads = CacheReads(token_bytes(facts, shape), windows={}, state=0.0)
        costs = step_costs(facts, self.gpu, reads, OVERHEAD, shape)
        return replace(costs, estimated=True) if costs else None

    def left_to_engine(self, facts: ModelFacts, shape: Shape, budget: Budget, inputs: SizingInputs) -> tuple[str, ...]:
        unset = shape.max_num_batched_tokens is None
        derived = (
            (CONTEXT, context_left(facts, inputs.context, budget.context)),
            (BATCHED_TOKENS, unset and budget.max_num_batched_tokens == chunk_tokens(self.gpu.memory_gib)),
        )
        return tuple(name for name, is_default in derived if is_default)


def cpu_needs(facts: ModelFacts | None, shape: Shape) -> CpuNeeds:
    context = shape.context or (facts.context if facts else 0)
    cache = int(context * token_bytes(facts, shape)) if facts else 0
    return CpuNeeds(context, cache, math.ceil((cache + (facts.weight_bytes if facts else 0)) / GIB))
