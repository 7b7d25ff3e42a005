"""The results of sizing on GPUs, a plan or why there is none; and CPU, host memory and disk of its pods."""

import math
from dataclasses import dataclass

from inference_operator.api.refusal import Refusal
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import Budget
from inference_operator.sizing.lora_and_speculative import draft_files_gib, kept_adapters_gib
from inference_operator.sizing.shape import Shape
from inference_operator.sizing.steptime import StepCosts
from inference_operator.units import GIB


@dataclass(frozen=True, slots=True)
class HostNeeds:
    """Resources of each pod of an engine beside its GPUs. It has a pod on each of its nodes."""

    cpu: int
    memory_gib: float
    ephemeral_storage_gib: float
    """With the checkpoint, if the engine downloads it."""
    shared_memory_gib: float


@dataclass(frozen=True, slots=True)
class GpuPlan:
    offer: GpuOffer
    shape: Shape
    budget: Budget
    host: HostNeeds
    context_reduced: bool
    """Whether the context is shorter than the target, because no larger group of GPUs exists."""
    model_context: int = 0
    """The model's own context in tokens, if sizing chose a shorter one; otherwise 0."""
    left_to_engine: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    unaccounted: tuple[str, ...] = ()
    """Parts that need an unknown amount of memory; each as a phrase."""
    step: StepCosts | None = None
    runner_up: str = ""

    @property
    def gpus_per_replica(self) -> int:
        return self.shape.parallel.world_size

    @property
    def replicas_per_node(self) -> int:
        return self.offer.per_node // self.gpus_per_replica


@dataclass(frozen=True, slots=True)
class Infeasible(Refusal):
    budget: Budget | None = None
    """The budget of the largest group of GPUs; None if no memory was counted."""


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
        >>> shared_memory_gib(Shape(kv_offload_gib=64))
        66.0
    """
    ranks = shape.parallel.ranks_per_node
    usual = next((gib for most, gib in SHARED_MEMORY_GIB if ranks <= most), SHARED_MEMORY_ABOVE_GIB)
    return usual + shape.kv_offload_gib
