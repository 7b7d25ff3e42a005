"""Surge or replace, and why: decided when the pod template changes, and then standing until it changes again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from inference_operator.api.reasons import Reason
from inference_operator.api.spec import RolloutStrategy
from inference_operator.manifest import Manifest
from inference_operator.observed.look import Found, FreeGpus, Gpus, Look
from inference_operator.observed.pod import PodView
from inference_operator.observed.reserved import reserved
from inference_operator.observed.rollout import Rollout, Why, rollout_of
from inference_operator.rollout.slots import slots_for

UNSCHEDULABLE_LIMIT = timedelta(seconds=30)
"""How long a surge may wait for a node: the scheduler looks again within seconds when something changes, and a node
autoscaler's new node takes minutes, which the engine that makes room does not."""

_WANT_OF_ROOM = ("Insufficient ", "Too many pods")
"""The scheduler's words where a node would do if fewer pods were on it (Kubernetes 1.36,
pkg/scheduler/framework/plugins/noderesources/fit.go)."""

_MAY_SWITCH = frozenset({Why.NOTHING_RUNS, Why.FREE_SLOT, Why.UNKNOWN, Why.ASKED})


@dataclass(frozen=True, slots=True)
class Moving:
    """The engines, as they are and as they are to become."""

    asked: RolloutStrategy
    template: str
    """The hash of the pod template that is wanted."""
    pod: Manifest
    """Its pod's specification."""
    live: Manifest | None
    """The live Deployment, if there is one."""
    pods: Sequence[PodView]
    """All pods of engines."""
    gpu: str
    """The GPUs' resource name."""

    @property
    def standing(self) -> Rollout | None:
        """The decision that the live Deployment carries about this template."""
        carried = rollout_of(self.live)
        return carried if carried and carried.template == self.template else None


@dataclass(frozen=True, slots=True)
class Undecided:
    """What must be looked up first, and the Deployment, which stays as it is until then."""

    look: FreeGpus
    live: Manifest


def rollout(moving: Moving, seen: Mapping[Look, Found], *, visible: bool, now: datetime) -> Rollout | Undecided:
    """Decide, from what is asked and runs and what has been looked up.

    Args:
        moving: the engines.
        seen: what has been looked up.
        visible: whether this operator can look at nodes.
        now: the time.
    """
    template = moving.template
    if moving.asked is not RolloutStrategy.AUTO:
        return Rollout(template, moving.asked, Why.ASKED)
    if moving.standing:
        due = switch_due(moving)
        return _replace(template, Why.UNSCHEDULABLE) if due and due <= now else moving.standing
    if moving.live is None or not _remaining(moving):
        return _surge(template, Why.NOTHING_RUNS)
    wanted, freed = reserved(moving.pod, moving.gpu), reserved(_pod_of(moving.live), moving.gpu)
    look = FreeGpus(moving.gpu)
    if wanted and visible and look not in seen:
        return Undecided(look, moving.live)
    found = seen.get(look)
    slots = slots_for(found, moving.pod, wanted) if wanted and isinstance(found, Gpus) else None
    if slots and slots.free:
        return _surge(template, Why.FREE_SLOT)
    if wanted > freed or (slots and not slots.possible):
        return _surge(template, Why.NO_USE)
    return _replace(template, Why.NO_FREE_SLOT) if slots else _surge(template, Why.UNKNOWN)


def switch_due(moving: Moving) -> datetime | None:
    """When a surge that finds no room becomes a replacement; None where it has room or that would make none."""
    decided = moving.standing
    if moving.asked is not RolloutStrategy.AUTO or decided is None or not _remaining(moving):
        return None
    if decided.strategy is not RolloutStrategy.SURGE or decided.why not in _MAY_SWITCH:
        return None
    waiting = [pod.created for pod in moving.pods if _waits_for_room(pod, moving.template) and pod.created]
    return min(waiting) + UNSCHEDULABLE_LIMIT if waiting else None


def _surge(template: str, why: Why) -> Rollout:
    return Rollout(template, RolloutStrategy.SURGE, why)


def _replace(template: str, why: Why) -> Rollout:
    return Rollout(template, RolloutStrategy.REPLACE, why)


def _waits_for_room(pod: PodView, template: str) -> bool:
    if pod.template != template or pod.terminating or pod.problem is None:
        return False
    return pod.problem.reason is Reason.UNSCHEDULABLE and any(words in pod.problem.cause for words in _WANT_OF_ROOM)


def _remaining(moving: Moving) -> bool:
    """Whether engines of an earlier template are still there to be replaced."""
    return any(pod.template != moving.template and not (pod.terminating or pod.failed) for pod in moving.pods)


def _pod_of(deployment: Manifest) -> Manifest:
    return ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
