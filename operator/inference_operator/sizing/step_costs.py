"""The costs of a step (`steptime.py`) of a model on a kind of GPU: its work, divided by speeds that engines reach."""

from dataclasses import replace

from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import Gpu
from inference_operator.sizing.efficiency import (
    ATTENTION_SHARE,
    EXCHANGE_SECONDS,
    EXPERTS_MEMORY_SHARE,
    HEAD_SHARE,
    LINK_SHARE,
    MEMORY_SHARE,
    NETWORK_GB_PER_S,
    NETWORK_SECONDS,
    NETWORK_SHARE,
    SPEEDUP,
    UNLINKED_EXCHANGE_SECONDS,
    UNLINKED_SHARE,
    cell,
    measured_share,
)
from inference_operator.sizing.kv_cache import CacheReads
from inference_operator.sizing.shape import ParallelSizes, Shape
from inference_operator.sizing.steptime import Overhead, StepCosts
from inference_operator.sizing.work import StepWork, step_work

GIGA, TERA = 1e9, 1e12
PAIR = 2
"""Largest group of GPUs on a bus of which measurements are public (`bench/data/throughput.csv`)."""


def step_costs(facts: ModelFacts, gpu: Gpu, reads: CacheReads, overhead: Overhead, shape: Shape) -> StepCosts | None:
    """The costs of a step; None if the GPU's speed is unknown, or if weights in host memory pass a bus in each step.

    Args:
        reads: bytes of the engine's KV cache that a step reads.
    """
    if not (gpu.bandwidth_gb_per_s and gpu.tflops) or shape.cpu_offload_gib:
        return None
    kernel_cell = cell(facts, shape, gpu=gpu.name, capability=gpu.capability)
    share = measured_share(kernel_cell)
    costs = costs_of_work(
        step_work(facts, reads, shape),
        gpu,
        overhead,
        operations_per_second=gpu.tflops * TERA * SPEEDUP[kernel_cell.arithmetic] * share.value,
        stages=shape.parallel.pipeline,
        estimated=not share.measurements or _is_unmeasured(gpu, shape.parallel),
    )
    return replace(costs, decodes=not facts.is_pooling)


def _is_unmeasured(gpu: Gpu, parallel: ParallelSizes) -> bool:
    """Whether no measurement of a step is public in this form: over nodes, of data parallel ranks, of a shared bus."""
    return parallel.nodes > 1 or parallel.data > 1 or (parallel.tensor > PAIR and not gpu.linked)


def costs_of_work(
    work: StepWork, gpu: Gpu, overhead: Overhead, *, operations_per_second: float, stages: int, estimated: bool
) -> StepCosts:
    """The costs of this work on a GPU that multiplies matrices at this speed."""
    memory = MEMORY_SHARE * gpu.bandwidth_gb_per_s * GIGA
    link = (LINK_SHARE if gpu.linked else UNLINKED_SHARE) * gpu.link_gb_per_s * GIGA
    latency = EXCHANGE_SECONDS if gpu.linked else UNLINKED_EXCHANGE_SECONDS
    network = NETWORK_SHARE * NETWORK_GB_PER_S * GIGA
    plain = gpu.tflops * TERA
    return StepCosts(
        dense=work.dense_bytes / memory,
        experts=work.expert_bytes / (EXPERTS_MEMORY_SHARE * gpu.bandwidth_gb_per_s * GIGA),
        expert_share=work.expert_share,
        cached_token=work.token_bytes / memory,
        windows={str(window): size / memory for window, size in work.windows.items()},
        sequence=work.state_bytes / memory + work.head_operations / (HEAD_SHARE * plain) + overhead.sequence,
        token=work.token_operations / operations_per_second,
        attention=work.attention_operations / (ATTENTION_SHARE * plain),
        exchange=(work.exchanged_bytes / link if work.exchanged_bytes and link else 0.0) + work.network_bytes / network,
        fixed=overhead.step + work.exchanges * latency + work.network_exchanges * NETWORK_SECONDS,
        stages=stages,
        estimated=estimated,
    )
