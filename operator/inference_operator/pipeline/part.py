"""What one feature contributes to an outcome. An outcome is the sum of its parts (`pipeline/summed.py`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, IntEnum

from inference_operator.autoscaling.inputs import ScalingInputs
from inference_operator.autoscaling.target import Target
from inference_operator.fleet.rollout_slots import FleetState
from inference_operator.jobs.attempts import JobWait
from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.pod_patch import PodPatch
from inference_operator.pipeline.adapter_lists import Adapter
from inference_operator.views.lookups import Lookup


class Feature(Enum):
    """The features, each of which makes at most one part of an outcome, by their names in the architecture's page.

    Objects of one place in the apply order are applied in this order, and pods are changed in it. Notices and lookups
    are joined in it, and of two waits the first one is shown. Nothing else depends on it.
    """

    LIVE = "live objects"
    REMOVALS = "removals"
    TRAFFIC = "traffic"
    POD_GROUPS = "pod groups"
    CLAIM = "claim"
    DOWNLOAD = "download"
    VERIFICATION = "verification"
    ADAPTERS = "adapters"
    ENGINES = "engines"
    ROUTERS = "routers"
    ENGINE_KEY = "engine key"
    BUDGETS = "budgets"
    SCALING = "autoscaling"
    MOVES = "moves"
    REMOVAL_ORDER = "removal order"
    FLEET = "fleet turn"
    INSPECTION = "inspection"


class Hold(IntEnum):
    """What stays as it is until a Job of the model has ended. Of several the largest counts."""

    NOTHING = 0
    NEW_ENGINES = 1
    """Live engines serve, and scale; new ones are not made."""
    ENGINES = 2
    """Neither do live engines scale."""
    OTHERS = 3
    """Nothing but the number of live engines changes."""
    ALL = 4
    """Nothing changes: a Job has failed, or the owner's policy requires signatures that are not verified yet."""

    @property
    def holds_engines(self) -> bool:
        return self is not Hold.NOTHING

    @property
    def scales(self) -> bool:
        return self not in {Hold.ENGINES, Hold.ALL}

    @property
    def holds_others(self) -> bool:
        return self >= Hold.OTHERS


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDecision:
    """What the controller carries out of a decision about a resource of any kind."""

    desired: Mapping[Ref, Manifest] = field(default_factory=dict)
    lookups: tuple[Lookup, ...] = ()
    fleet_state: FleetState = FleetState.UNDECIDED
    pods: tuple[PodPatch, ...] = ()
    """What changes of pods that exist: which ones are deleted, go first, get requests, or read their adapters again."""
    scaling: tuple[ScalingInputs, ...] = ()
    """The inputs of autoscaling of each role about whose number of engines the operator decides."""
    engine_key: Manifest | None = None
    """The Secret with the key that engines ask for, without the key; None if no engine asks for it."""
    awaits_adapters: bool = False
    """Whether an engine has yet to tell that it has carried out its list of adapters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(ResourceDecision):
    """What features contribute: one of them in its part, all of them together in an outcome.

    What has one author, such as the inputs of autoscaling, has its default in all parts but that of its feature.
    """

    due: datetime | None = None
    """When to decide again if no event comes before."""
    notice: str = ""
    model_wait: JobWait | None = None
    targets: Mapping[str, Target] = field(default_factory=dict)
    """How many requests one engine should have, and what decides that, by role; those without autoscaling have none."""
    adapters: tuple[Adapter, ...] = ()
    one_node_claim: str = ""
    """Name of the engines' claim, if pods on one node only can mount it; empty if not, and without a claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Sum):
    """What one feature contributes. No other part writes the same object, or the same field of the same pod."""

    feature: Feature
    kept: Mapping[Ref, Manifest] = field(default_factory=dict)
    """Live objects that stay as they are, unless a part writes them."""
