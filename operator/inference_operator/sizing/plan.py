"""The sizes of one engine, as they are pinned: chosen by arithmetic, or as asked where nothing can be counted."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from inference_operator.api.spec import Device
from inference_operator.hardware.offers import GPU_RESOURCE
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.beside import draft_files_gib, uncounted
from inference_operator.sizing.budget import Budget
from inference_operator.sizing.cpu import GIB, CpuNeeds
from inference_operator.sizing.gpu_plan import GpuPlan
from inference_operator.sizing.host import LOGS_GIB, shared_memory_gib
from inference_operator.sizing.shape import Shape

SIZING_RULES = 2
"""Version of the rules below; it is written down with what they decide."""

DIGITS = 2
"""Of amounts in GiB: the arithmetic is no better than that."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asked of the size, where nothing is counted."""

    tensor_parallel_size: int = 1
    shape: Shape = field(default_factory=Shape)
    """Everything else that was asked of the engine."""
    resource: str = GPU_RESOURCE
    unchecked: str = ""
    """Why nothing could be counted, in a sentence."""


@dataclass(frozen=True, slots=True)
class PerGpu:
    """The arithmetic of one GPU; memory in GiB."""

    memory_gib: float
    """All of it, as CUDA reports it."""
    offered_gib: float
    """What the engine may use of it."""
    weights_gib: float
    activation_gib: float
    non_torch_gib: float
    cuda_graphs_gib: float
    kv_cache_gib: float
    kv_cache_tokens: int
    kv_token_bytes: int
    """What a token adds to the KV cache."""
    headroom_gib: float
    """What is left beside one sequence of full length."""
    longest_requests: float
    """Sequences of full length that fit at once."""
    typical_requests: float
    """Sequences of typical length that fit at once."""
    origins: Mapping[str, str]
    """Where each term comes from: the model's config, the engine's version, a measurement."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Only what sizing decided; quantities in Kubernetes' canonical form. None: the engine's own default."""

    device: Device
    tensor_parallel_size: int
    gpus_per_replica: int
    cpu: str
    memory: str
    ephemeral_storage: str
    shared_memory: str
    pipeline_parallel_size: int = 1
    resource: str = GPU_RESOURCE
    """The extended resource that GPUs are asked for by."""
    gpu: str = ""
    """The kind of GPU that it was sized for; empty where that is not known."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """What ties engines to nodes with these GPUs."""
    avoided_products: tuple[str, ...] = ()
    """Products of other GPUs, where no label is known that ties engines to theirs."""
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_bytes: int | None = None
    """Size of the KV cache of each rank, where an engine has to be told: on CPUs."""
    weight_bytes: int | None = None
    """Of the whole checkpoint; None where that is not known."""
    cpu_offload_gib: float = 0.0
    """Weights of each GPU that stay in the host's memory."""
    context_reduced: bool = False
    """Whether sequences are shorter than sizing aims at, since no larger group of GPUs exists."""
    assumptions: tuple[str, ...] = ()
    """What nobody said and was taken instead."""
    uncounted: tuple[str, ...] = ()
    """What takes memory too and nobody knows how much, each as a phrase."""
    unchecked: str = ""
    """Why nothing was counted; empty where it was."""
    per_gpu: PerGpu | None = None
    decision: int = 0
    """How often the same was decided anew, because no node took the engines; the latest counts."""


GPU_CPU, GPU_MEMORY_GIB, GPU_EPHEMERAL_STORAGE = "4", 16, "2Gi"
"""Requests of an engine on GPUs whose model nobody knows: a core each for the API server, the scheduler, one worker's
launch thread and detokenising, and the host memory in which a checkpoint shard is staged. The disk request covers logs
and compile caches only. They reserve a start, not a model's size."""

CPU_CPU = "1"
"""Cores of an engine on CPUs: it starts with one and takes what its node can spare; `engine.resources` gives more."""


def plan(wishes: Wishes) -> Plan:
    """The sizes of one engine on GPUs, as asked.

    Examples:
        >>> plan(Wishes(tensor_parallel_size=8)).gpus_per_replica
        8
    """
    shape = replace(wishes.shape, tensor=wishes.tensor_parallel_size)
    ranks = shape.tensor * shape.pipeline
    return Plan(
        device=Device.GPU,
        tensor_parallel_size=wishes.tensor_parallel_size,
        pipeline_parallel_size=shape.pipeline,
        gpus_per_replica=ranks,
        cpu=GPU_CPU,
        memory=_gibibytes(GPU_MEMORY_GIB + shape.cpu_offload_gib * ranks + shape.kv_offload_gib),
        ephemeral_storage=GPU_EPHEMERAL_STORAGE,
        shared_memory=_gibibytes(shared_memory_gib(shape)),
        resource=wishes.resource,
        max_model_len=shape.context,
        max_num_seqs=shape.max_num_seqs,
        max_num_batched_tokens=shape.max_num_batched_tokens,
        gpu_memory_utilization=shape.utilization,
        cpu_offload_gib=shape.cpu_offload_gib,
        unchecked=wishes.unchecked,
    )


def cpu_plan(wishes: Wishes, needs: CpuNeeds, facts: ModelFacts | None, *, downloads: bool) -> Plan:
    """The sizes of one engine on CPUs.

    Args:
        wishes: what the user asked.
        needs: the memory that it takes.
        facts: the model, if it is known.
        downloads: whether the engine gets the checkpoint onto its node's disk; else it is mounted.
    """
    shape = replace(wishes.shape, tensor=wishes.tensor_parallel_size)
    weights = facts.weight_bytes if facts else None
    disk = LOGS_GIB + draft_files_gib(shape) + ((weights or 0) / GIB if downloads else 0)
    return Plan(
        device=Device.CPU,
        tensor_parallel_size=wishes.tensor_parallel_size,
        pipeline_parallel_size=shape.pipeline,
        gpus_per_replica=0,
        cpu=CPU_CPU,
        memory=_gibibytes(needs.memory_gib),
        ephemeral_storage=_gibibytes(disk),
        shared_memory=_gibibytes(shared_memory_gib(shape)),
        max_model_len=needs.context,
        max_num_seqs=shape.max_num_seqs,
        max_num_batched_tokens=shape.max_num_batched_tokens,
        gpu_memory_utilization=shape.utilization,
        kv_cache_bytes=None if shape.utilization else needs.cache_bytes,
        weight_bytes=weights,
        assumptions=facts.assumptions if facts else (),
        uncounted=uncounted(facts, shape) if facts else (),
    )


def checked_plan(chosen: GpuPlan, facts: ModelFacts, *, downloads: bool, avoided: tuple[str, ...] = ()) -> Plan:
    """The sizes of one engine, as the arithmetic chose them.

    Args:
        chosen: what was chosen.
        facts: the model.
        downloads: whether the engine gets the checkpoint onto its node's disk; else it is mounted.
        avoided: products of GPUs on which it must not be.
    """
    offer, shape, host = chosen.offer, chosen.shape, chosen.host
    disk = host.ephemeral_storage_gib if downloads else LOGS_GIB + draft_files_gib(shape)
    return Plan(
        device=Device.GPU,
        tensor_parallel_size=shape.tensor,
        pipeline_parallel_size=shape.pipeline,
        gpus_per_replica=chosen.gpus_per_replica,
        cpu=str(host.cpu),
        memory=_gibibytes(host.memory_gib),
        ephemeral_storage=_gibibytes(disk),
        shared_memory=_gibibytes(host.shared_memory_gib),
        resource=offer.resource,
        gpu=offer.kind,
        node_selector={offer.label: offer.product} if offer.product else {},
        avoided_products=() if offer.product else avoided,
        max_model_len=shape.context,
        max_num_seqs=shape.max_num_seqs,
        max_num_batched_tokens=shape.max_num_batched_tokens,
        gpu_memory_utilization=shape.utilization,
        cpu_offload_gib=shape.cpu_offload_gib,
        weight_bytes=facts.weight_bytes,
        context_reduced=chosen.context_reduced,
        assumptions=chosen.assumptions,
        uncounted=chosen.uncounted,
        per_gpu=_per_gpu(chosen.budget),
    )


def _per_gpu(found: Budget) -> PerGpu:
    return PerGpu(
        memory_gib=round(found.memory, DIGITS),
        offered_gib=round(found.offered, DIGITS),
        weights_gib=round(found.weights, DIGITS),
        activation_gib=round(found.activation, DIGITS),
        non_torch_gib=round(found.context_memory, DIGITS),
        cuda_graphs_gib=round(found.graphs, DIGITS),
        kv_cache_gib=round(found.kv_cache, DIGITS),
        kv_cache_tokens=found.kv_tokens,
        kv_token_bytes=round(found.kv_token_bytes),
        headroom_gib=round(found.headroom, DIGITS),
        longest_requests=round(found.concurrency, 1),
        typical_requests=round(found.typical_concurrency, 1),
        origins={term.name: term.origin for term in found.terms},
    )


def _gibibytes(amount: float) -> str:
    """Whole GiB as the API server writes them.

    Examples:
        >>> _gibibytes(18.2), _gibibytes(2048), _gibibytes(2**20)
        ('19Gi', '2Ti', '1Pi')
    """
    whole, units = math.ceil(amount), ["Gi", "Ti", "Pi"]
    while whole and whole % 1024 == 0 and len(units) > 1:
        whole, units = whole // 1024, units[1:]
    return f"{whole}{units[0]}"
