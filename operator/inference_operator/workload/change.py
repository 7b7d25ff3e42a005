"""The decisions about a role's workload, which its objects are built from."""

from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.spec import RolloutStrategy
from inference_operator.fleet.rollout_slots import Turn
from inference_operator.views.lookups import Lookup
from inference_operator.workload.eviction.drain import Move
from inference_operator.workload.eviction.half_placed import Yielding
from inference_operator.workload.eviction.hardware_errors import MovedPods
from inference_operator.workload.eviction.obstacles import Lasting
from inference_operator.workload.eviction.rollout import Rollout
from inference_operator.workload.pinned_template import PinnedTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadChange:
    template: PinnedTemplate
    rollout: Rollout | None
    """How pods are replaced; None until the lookup that decides it has a result. The live workload stays until then."""
    surge_cure: str = ""
    """What lets a rollout go on that surges as asked and cannot, in a sentence; empty if nothing needs it."""
    obstacle: Lasting | None = None
    """What holds the rollout, and for which no engine ends; None if nothing does."""
    refusal: str = ""
    """Why Kubernetes makes no pods of new groups, in its words; empty if it makes them."""
    moved: MovedPods
    wanted: int
    replicas: int
    """The same, but no more than fit on the nodes where nodes limit them."""
    yielding: Yielding
    move: Move
    turn: Turn | None = None
    """That of the resource in a change of the administrator; None if it has none."""
    lookups: tuple[Lookup, ...] = ()
    due: datetime | None = None
    """When some of this changes without an event."""

    @property
    def strategy(self) -> RolloutStrategy:
        return self.rollout.strategy if self.rollout else RolloutStrategy.SURGE
