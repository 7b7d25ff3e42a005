"""The sizes of one engine: the tensor parallel size that the user gave, and named defaults per device."""

from dataclasses import dataclass

from inference_operator.api.spec import Device

SIZING_RULES = 1
"""Version of the rules below; it is written down with what they decide."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asked of the size."""

    device: Device
    tensor_parallel_size: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Only what sizing decided; quantities in Kubernetes' canonical form."""

    device: Device
    tensor_parallel_size: int
    gpus_per_replica: int
    cpu: str
    memory: str
    ephemeral_storage: str
    shared_memory: str


GPU_CPU, GPU_MEMORY, GPU_EPHEMERAL_STORAGE = "4", "16Gi", "2Gi"
"""Requests of an engine on GPUs: a core each for the API server, the scheduler, one worker's launch thread and
detokenising, and the host memory in which a checkpoint shard is staged. The disk request covers logs and compile
caches only. They reserve a start, not a model's size, which nothing knows before a model is inspected."""

CPU_CPU, CPU_MEMORY, CPU_EPHEMERAL_STORAGE = "1", "4Gi", "1Gi"
"""Requests of an engine on a CPU: vLLM 0.32 for CPU holds about 4 GiB resident over its processes with a model of a
few megabytes (`make demo` measures it); a real model needs `engine.resources`."""

SHARED_MEMORY_BY_TENSOR_SIZE = ((1, "2Gi"), (4, "8Gi"))
SHARED_MEMORY_ABOVE = "16Gi"
"""Upper bounds of /dev/shm by tensor parallel size: vLLM's own Kubernetes example mounts 2 GiB for one GPU
(vllm-project/vllm v0.32.0, docs/deployment/k8s.md); NCCL and the workers' message queue take more as ranks grow."""


def plan(wishes: Wishes) -> Plan:
    """The sizes of one engine.

    Examples:
        >>> plan(Wishes(Device.GPU, tensor_parallel_size=8)).gpus_per_replica
        8
        >>> plan(Wishes(Device.CPU, tensor_parallel_size=1)).gpus_per_replica
        0
    """
    on_gpu = wishes.device is Device.GPU
    size = wishes.tensor_parallel_size
    return Plan(
        device=wishes.device,
        tensor_parallel_size=size,
        gpus_per_replica=size if on_gpu else 0,
        cpu=GPU_CPU if on_gpu else CPU_CPU,
        memory=GPU_MEMORY if on_gpu else CPU_MEMORY,
        ephemeral_storage=GPU_EPHEMERAL_STORAGE if on_gpu else CPU_EPHEMERAL_STORAGE,
        shared_memory=_shared_memory(size),
    )


def _shared_memory(tensor_parallel_size: int) -> str:
    for largest, amount in SHARED_MEMORY_BY_TENSOR_SIZE:
        if tensor_parallel_size <= largest:
            return amount
    return SHARED_MEMORY_ABOVE
