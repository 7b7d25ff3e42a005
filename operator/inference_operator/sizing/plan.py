"""The plan of one engine: its sizes and its pod's requests, on GPUs with or without a memory check, or on CPUs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from inference_operator.api.hardware import Device
from inference_operator.hardware.resources import GPU_RESOURCE
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import Budget
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.gpu_plan import LOGS_GIB, GpuPlan, HostNeeds, shared_memory_gib
from inference_operator.sizing.learned import Learned
from inference_operator.sizing.lora_and_speculative import draft_files_gib, unaccounted
from inference_operator.sizing.shape import CONTEXT, ParallelSizes, Shape, SizingInputs, context_left
from inference_operator.sizing.steptime import StepCosts
from inference_operator.units import GIB

SIZING_RULES = 3
"""Version of the sizing rules; it is stored with each plan."""
DIGITS = 2
"""Decimal digits of amounts in GiB; sizing is not more precise."""


@dataclass(frozen=True, slots=True)
class PerGpu:
    memory_gib: float
    requested_gib: float
    weights_gib: float
    activation_gib: float
    non_torch_gib: float
    cuda_graphs_gib: float
    kv_cache_gib: float
    kv_cache_tokens: int
    kv_token_bytes: int
    headroom_gib: float
    """KV cache beyond one sequence of the longest context."""
    max_concurrency_at_full_context: float
    max_concurrency_at_2048_tokens: float
    origins: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Drafting:
    method: str
    tokens: int
    draft: str = ""
    draft_revision: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision of sizing. Quantities are of one pod, in Kubernetes' canonical form. None: the engine's own."""

    device: Device
    parallel: ParallelSizes
    gpus_per_replica: int
    """GPUs of one engine, on all of its nodes."""
    cpu: str
    memory: str
    ephemeral_storage: str
    shared_memory: str
    resource: str = GPU_RESOURCE
    gpu: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    labels_of_kind: bool = False
    """Whether any node label that names the kind selects nodes, and not only `node_selector`."""
    avoided_products: tuple[str, ...] = ()
    """GPU products that the pods must avoid, if no node label selects the right ones."""
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    left_to_engine: tuple[str, ...] = ()
    """The sizes, of the three above, that the engine derives itself, by their names in `spec.engine`. No argument sets
    them."""
    gpu_memory_utilization: float | None = None
    kv_cache_bytes: int | None = None
    """Size of the KV cache of each rank, on CPUs."""
    kv_cache_dtype: str = ""
    """The type of the KV cache by the model's recipe; empty: what `spec.engine` says."""
    kv_offload_gib: int = 0
    """Host memory for the KV cache of an engine that sizing chose; 0: what `spec.engine` says."""
    implementation: str = ""
    """The implementation of the model that the engine must use, by the engine's own name; empty: its own choice."""
    model_file: str = ""
    """Name of the file that the engine loads: the first part of a model in GGUF. Empty for other formats."""
    config_overrides: str = ""
    """Fields of the model's config that the engine must read in another way, as a JSON object; empty for none."""
    engine_choice: str = ""
    """Why this engine runs, and what users lose with it, in sentences; empty for the first choice without a loss."""
    whole_encoder: bool = False
    video_refused: bool = False
    """Whether the engine refuses requests with video, although the model reads it."""
    tool_call_parser: str = ""
    reasoning_parser: str = ""
    drafting: Drafting | None = None
    adapter_slots: int = 0
    """Adapters that an engine can use in one batch; 0 if `spec.model.adapters` and its fields ask for none."""
    adapter_rank: int = 0
    adapter_slot_gib: float = 0.0
    """Memory of one slot on each GPU; 0 without slots, or if the model is unknown."""
    weight_bytes: int | None = None
    cpu_offload_gib: float = 0.0
    context_reduced: bool = False
    model_context: int = 0
    """The model's own context in tokens, if sizing chose a shorter one; otherwise 0."""
    assumptions: tuple[str, ...] = ()
    """Values that the model's config does not state and sizing assumed."""
    unaccounted: tuple[str, ...] = ()
    unchecked_reason: str = ""
    per_gpu: PerGpu | None = None
    revision: int = 0
    """How often sizing was repeated, because no node could run the engines or an engine reported too little memory; the
    highest number is current."""
    learned: Learned | None = None
    """The report of an engine of an earlier revision for the same specification; None without one."""
    step: StepCosts | None = None
    runner_up: str = ""
    """The best other choice of GPUs and parallel sizes, and why it lost; empty if there is none."""
    advice: tuple[str, ...] = ()
    """What needs fewer GPUs or carries more, and is never chosen by itself; in sentences."""

    @property
    def gpus_per_pod(self) -> int:
        """GPUs of each pod of an engine; 0 on CPUs. An engine has one pod for each of its nodes."""
        return self.gpus_per_replica // self.parallel.nodes


GPU_CPU, GPU_MEMORY_GIB, GPU_EPHEMERAL_STORAGE_GIB = 4, 16, 2
"""Requests of an engine on GPUs whose model is unknown: a core each for the API server, the scheduler, one worker's
launch thread and detokenization, and the host memory in which a checkpoint shard is staged. The disk request covers
only logs and compile caches. They are enough for a start; they do not depend on the model's size."""
CPU_CPU = 1
"""Cores of an engine on CPUs. It starts with one and uses what its node has free; `engine.resources` gives more."""


def unchecked_plan(inputs: SizingInputs, why: str = "") -> Plan:
    shape = inputs.requested_shape
    ranks = shape.parallel.ranks_per_node
    host = HostNeeds(
        cpu=GPU_CPU,
        memory_gib=GPU_MEMORY_GIB + shape.cpu_offload_gib * ranks + shape.kv_offload_gib,
        ephemeral_storage_gib=GPU_EPHEMERAL_STORAGE_GIB,
        shared_memory_gib=shared_memory_gib(shape),
    )
    return replace(_plan(Device.GPU, shape, host), resource=inputs.resource, unchecked_reason=why)


def cpu_plan(inputs: SizingInputs, needs: CpuNeeds, facts: ModelFacts | None, *, downloads: bool) -> Plan:
    """The sizes of one engine on CPUs.

    Args:
        downloads: whether the engine downloads the checkpoint to its node's disk; otherwise it is mounted.
    """
    shape = replace(inputs.requested_shape, context=needs.context)
    weights_gib = facts.weight_bytes / GIB if facts and downloads else 0
    host = HostNeeds(
        cpu=CPU_CPU,
        memory_gib=needs.memory_gib,
        ephemeral_storage_gib=LOGS_GIB + draft_files_gib(shape) + weights_gib,
        shared_memory_gib=shared_memory_gib(shape),
    )
    cache_bytes = None if shape.utilization else needs.cache_bytes
    left = (CONTEXT,) if facts and context_left(facts, inputs.context, needs.context) else ()
    return replace(_plan(Device.CPU, shape, host, facts), kv_cache_bytes=cache_bytes, left_to_engine=left)


def checked_plan(chosen: GpuPlan, facts: ModelFacts, *, downloads: bool, avoided: tuple[str, ...] = ()) -> Plan:
    offer, shape, host = chosen.offer, chosen.shape, chosen.host
    if not downloads:
        host = replace(host, ephemeral_storage_gib=LOGS_GIB + draft_files_gib(shape))
    return replace(
        _plan(Device.GPU, shape, host, facts),
        resource=offer.resource,
        gpu=offer.kind,
        node_selector={offer.label: offer.product} if offer.product else {},
        labels_of_kind=offer.labels_of_kind,
        avoided_products=() if offer.product or offer.labels_of_kind else avoided,
        context_reduced=chosen.context_reduced,
        model_context=chosen.model_context,
        left_to_engine=chosen.left_to_engine,
        kv_cache_dtype=chosen.budget.recipe_cache,
        kv_offload_gib=round(shape.kv_offload_gib) if shape.kv_offload_auto else 0,
        per_gpu=_per_gpu(chosen.budget),
        step=chosen.step.rounded if chosen.step else None,
        runner_up=chosen.runner_up,
    )


def _plan(device: Device, shape: Shape, host: HostNeeds, facts: ModelFacts | None = None) -> Plan:
    on_gpus = device is Device.GPU
    return Plan(
        device=device,
        parallel=shape.parallel,
        gpus_per_replica=shape.parallel.world_size if on_gpus else 0,
        cpu=str(host.cpu),
        memory=_gibibytes(host.memory_gib),
        ephemeral_storage=_gibibytes(host.ephemeral_storage_gib),
        shared_memory=_gibibytes(host.shared_memory_gib),
        max_model_len=shape.context,
        max_num_seqs=shape.max_num_seqs,
        max_num_batched_tokens=shape.max_num_batched_tokens,
        gpu_memory_utilization=shape.utilization,
        whole_encoder=bool(shape.whole_encoder),
        cpu_offload_gib=shape.cpu_offload_gib if on_gpus else 0.0,
        weight_bytes=facts.weight_bytes if facts else None,
        assumptions=facts.assumptions if facts else (),
        unaccounted=unaccounted(facts, shape) if facts else (),
        video_refused=bool(facts and facts.tower and facts.tower.video_tokens and not shape.video),
    )


def _per_gpu(budget: Budget) -> PerGpu:
    return PerGpu(
        memory_gib=round(budget.memory, DIGITS),
        requested_gib=round(budget.offered, DIGITS),
        weights_gib=round(budget.weights, DIGITS),
        activation_gib=round(budget.activation, DIGITS),
        non_torch_gib=round(budget.context_memory, DIGITS),
        cuda_graphs_gib=round(budget.graphs, DIGITS),
        kv_cache_gib=round(budget.kv_cache, DIGITS),
        kv_cache_tokens=budget.kv_tokens,
        kv_token_bytes=round(budget.kv_token_bytes),
        headroom_gib=round(budget.headroom, DIGITS),
        max_concurrency_at_full_context=round(budget.concurrency, 1),
        max_concurrency_at_2048_tokens=round(budget.typical_concurrency, 1),
        origins={str(term.name): str(term.origin) for term in budget.terms},
    )


def _gibibytes(amount: float) -> str:
    """Whole GiB, rounded up, as the API server writes them.

    Examples:
        >>> _gibibytes(18.2), _gibibytes(2048), _gibibytes(2**20)
        ('19Gi', '2Ti', '1Pi')
    """
    whole, units = math.ceil(amount), ["Gi", "Ti", "Pi"]
    while whole and whole % 1024 == 0 and len(units) > 1:
        whole, units = whole // 1024, units[1:]
    return f"{whole}{units[0]}"
