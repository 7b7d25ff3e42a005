"""What sizing is asked, and what it answers."""

from dataclasses import dataclass, field
from enum import StrEnum

from inference_operator.hardware.offers import GpuOffer
from inference_operator.sizing.budget import Budget
from inference_operator.sizing.shape import Shape


@dataclass(frozen=True, slots=True)
class GpuWishes:
    """What the user asked of the size; None: sizing decides."""

    tensor: int | None = None
    context: int | None = None
    """Longest sequence in tokens; never reduced."""
    concurrency: int | None = None
    """Typical requests that must fit at once."""
    kinds: tuple[str, ...] = ()
    """Kinds or products of GPUs that may be used; empty: any."""
    least_memory_gib: float = 0.0
    shape: Shape = field(default_factory=Shape)
    """Everything else that is asked: pipeline, utilisation, types. Its tensor size and context are not read."""


@dataclass(frozen=True, slots=True)
class HostNeeds:
    """What an engine's pod takes beside its GPUs."""

    cpu: int
    """Cores."""
    memory_gib: float
    ephemeral_storage_gib: float
    """With the checkpoint, where it is not mounted."""
    shared_memory_gib: float


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """The sizes of one engine on GPUs, and the arithmetic behind them."""

    offer: GpuOffer
    """The GPUs that it was sized for."""
    shape: Shape
    budget: Budget
    """Of one GPU."""
    host: HostNeeds
    context_reduced: bool
    """The longest sequence is shorter than sizing aims at, since no larger group exists."""
    assumptions: tuple[str, ...] = ()
    uncounted: tuple[str, ...] = ()
    """What takes memory too, and nobody knows how much."""

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one engine."""
        return self.shape.tensor * self.shape.pipeline

    @property
    def replicas_per_node(self) -> int:
        """Engines that fit on one node."""
        return self.offer.per_node // self.gpus_per_replica


class Why(StrEnum):
    """Why nothing can be planned; each is a reason of status."""

    INSUFFICIENT_GPU_MEMORY = "InsufficientGpuMemory"
    INVALID_PARALLEL_SIZE = "InvalidParallelSize"
    NEEDS_MULTI_NODE = "NeedsMultiNode"
    CONTEXT_TOO_LONG = "ContextTooLong"
    NO_SUITABLE_GPU = "NoSuitableGpu"


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why nothing can be planned, in words for a user; a refusal's parts."""

    why: Why
    field: str
    problem: str
    cure: str
    budget: Budget | None = None
    """The arithmetic of the group that came nearest; None where no memory was counted."""

    @property
    def message(self) -> str:
        """Field, problem and cure in one line."""
        return f"{self.field}: {self.problem} {self.cure}"
