"""The results of sizing on GPUs: a plan, or the reason why there is none."""

from dataclasses import dataclass

from inference_operator.api.refusal import Refusal
from inference_operator.hardware.offers import GpuOffer
from inference_operator.sizing.budget import Budget
from inference_operator.sizing.shape import Shape
from inference_operator.sizing.steptime import StepCosts


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
