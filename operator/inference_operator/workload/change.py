"""The decisions about a role's workload, which its objects are built from."""

from dataclasses import dataclass

from inference_operator.fleet.turn import Turn
from inference_operator.workload.half_placed import Yielding
from inference_operator.workload.hardware_errors import MovedPods
from inference_operator.workload.moving import Move
from inference_operator.workload.pinned_template import PinnedTemplate
from inference_operator.workload.rollout import Rollout


@dataclass(frozen=True, slots=True)
class WorkloadChange:
    """The decisions about a role's workload."""

    template: PinnedTemplate
    """The pod template in use."""
    rollout: Rollout
    """How pods are replaced."""
    moved: MovedPods
    """Pods that were moved away from broken GPUs."""
    replicas: int
    """Engines that are wanted."""
    yielding: Yielding
    """Groups that gave their nodes back."""
    move: Move
    """How engines move away from nodes that are leaving."""
    turn: Turn | None = None
    """That of the resource in a change of the owner; None if it has none."""
