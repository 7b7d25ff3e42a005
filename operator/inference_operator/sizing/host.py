"""CPU, host memory and disk of an engine's pod on GPU nodes."""

import math

from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.gpu_plan import HostNeeds
from inference_operator.sizing.lora_and_speculative import draft_files_gib, kept_adapters_gib
from inference_operator.sizing.shape import Shape
from inference_operator.units import GIB

CORES_BESIDE_RANKS = 3
"""Cores for API server, scheduler and detokenization. Each rank has one more for its launch thread."""
ENGINE_GIB, RANK_GIB = 6.0, 4.0
"""Resident memory of API server and scheduler, and of each rank: Python, CUDA's libraries, pinned buffers."""
SHARD_GIB = 5.0
"""The largest file of checkpoints on the hub. Ranks read one file after the other through the page cache."""
LOGS_GIB = 2.0
"""Disk for logs and compiled kernels."""
SHARED_MEMORY_GIB = ((1, 2.0), (4, 8.0))
SHARED_MEMORY_ABOVE_GIB = 16.0
"""Limit of /dev/shm by ranks: vLLM's own Kubernetes example mounts 2 GiB for one GPU (v0.32.0, `docs/deployment/
k8s.md`); NCCL and the workers' message queue need more with more ranks."""


def host_needs(facts: ModelFacts, shape: Shape, pinned_gib: float = 0.0) -> HostNeeds:
    """CPU, memory and disk requests of each pod of an engine.

    The pod of each node downloads the whole checkpoint: vLLM divides it when it loads it. A KV cache in the host's
    memory is counted whole on each node, which is an upper bound.
    """
    ranks = shape.parallel.ranks_per_node
    checkpoint = facts.weight_bytes / GIB
    memory = ENGINE_GIB + (RANK_GIB + pinned_gib) * ranks + min(checkpoint, SHARD_GIB) + shape.cpu_offload_gib * ranks
    memory += shape.kv_offload_gib + kept_adapters_gib(facts, shape)
    return HostNeeds(
        cpu=CORES_BESIDE_RANKS + ranks,
        memory_gib=math.ceil(memory),
        ephemeral_storage_gib=math.ceil(checkpoint + draft_files_gib(shape) + LOGS_GIB),
        shared_memory_gib=shared_memory_gib(shape),
    )


def shared_memory_gib(shape: Shape) -> float:
    """Limit of /dev/shm of each pod in GiB, with the KV cache in the host's memory.

    vLLM maps that cache from a file in /dev/shm (0.32.0, `v1/kv_offload/cpu/shared_offload_region.py`).

    Examples:
        >>> from inference_operator.sizing.shape import ParallelSizes
        >>> [shared_memory_gib(Shape(ParallelSizes(size))) for size in (1, 4, 8)]
        [2.0, 8.0, 16.0]
        >>> shared_memory_gib(Shape(kv_offload_gib=64))
        66.0
    """
    ranks = shape.parallel.ranks_per_node
    usual = next((gib for most, gib in SHARED_MEMORY_GIB if ranks <= most), SHARED_MEMORY_ABOVE_GIB)
    return usual + shape.kv_offload_gib
