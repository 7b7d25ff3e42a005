"""Rollout slots: whether an InferenceDeployment may begin with a change that its user has not made.

Changes of the administrator's settings concern all of them. Without slots, one bad value would replace the pods of all
services at once.

A turn is an annotation of the workload, written together with the new pod template. So it is known after a restart of
the operator, and it ends when somebody edits the resource: another template has no turn.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pydantic import TypeAdapter

from inference_operator.api.rollouts import RolloutSettings
from inference_operator.manifest import Key, Manifest
from inference_operator.objects.annotation import JsonAnnotation, UtcSecond
from inference_operator.objects.pinned import PinUse
from inference_operator.views.workload import WorkloadView, role_view, workload_view


class FleetState(StrEnum):
    """State of the administrator's changes at one InferenceDeployment."""

    DONE = "done"
    """Its pods are as its specification and the administrator's settings say."""
    WAITING = "waiting"
    ROLLING = "rolling"
    FAILED = "failed"
    """Its pods were replaced, and it was healthy before and is not now."""
    UNDECIDED = "undecided"
    """Nothing is decided about it: it is paused, refused, or being deleted."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is known about all other InferenceDeployments when one is decided."""

    rolling: int = 0
    """InferenceDeployments that replace pods now for a change of the administrator."""
    is_stopped: bool = False
    """Whether others that are worse than before stop the change, or one was not looked at since the operator has
    started."""
    canary_is_done: bool = True
    """Whether the administrator's canary has the change and is healthy."""


NO_OTHERS = Fleet()
STOPPING = 2
"""Namespaces with a failure that stop a change for all, and failures in a namespace that stop it there."""


def stops(failed: AbstractSet[Key], own: Key | None, rollouts: RolloutSettings) -> bool:
    """Whether InferenceDeployments that are worse than before stop the change for another one (None: for all).

    The administrator chose the canary, and two namespaces seldom have the same fault by chance. A single failure stops
    nothing: its fault may be its own, and its user must not hold a change of the administrator from all others. Several
    in one namespace stop those of this namespace, so a cluster with one namespace is protected too.
    """
    by_namespace = Counter(key.namespace for key in failed)
    in_own = by_namespace[own.namespace] if own else 0
    return rollouts.canary_key in failed or len(by_namespace) >= STOPPING or in_own >= STOPPING


def may_begin(fleet: Fleet, own: Key, rollouts: RolloutSettings) -> bool:
    waits_for_canary = rollouts.canary_key not in {None, own} and not fleet.canary_is_done
    return not (fleet.is_stopped or waits_for_canary) and fleet.rolling < rollouts.max_concurrent


@dataclass(frozen=True, slots=True)
class Turn:
    template: str
    """The hash of the pod template that pods get in it."""
    since: UtcSecond
    healthy: bool
    """Whether the InferenceDeployment was healthy before. Otherwise it cannot get worse."""


TURN_ANNOTATION = JsonAnnotation("inference-operator.dev/turn", TypeAdapter(Turn))


@dataclass(frozen=True, slots=True)
class TurnInputs:
    """What is known about an InferenceDeployment when a turn may begin or end."""

    now: datetime
    may_begin: bool = True
    """Whether the brake lets it begin."""
    is_ready: bool = True
    """Whether its condition Ready is True."""
    is_stalled: bool = False
    has_gap: bool = False
    """Whether engines in their turn end before their successors start, so that nothing may be ready for a time."""


def recorded_turn(workload: Manifest | None) -> Turn | None:
    """The turn of a live workload; None if it has none, its annotation was edited, or its template is another one."""
    turn = TURN_ANNOTATION.read(workload)
    return turn if turn and turn.template == workload_view(workload).template else None


def next_turn(inputs: TurnInputs, use: PinUse, template: str, workloads: Sequence[Manifest]) -> Turn | None:
    recorded = recorded_turn(next(iter(workloads), None))
    if use is PinUse.SETTINGS:
        healthy = recorded.healthy if recorded else inputs.is_ready and not inputs.is_stalled
        return Turn(template, inputs.now, healthy)
    if recorded is None or recorded.template != template:
        return None
    return None if turn_state(recorded, role_view(workloads), inputs) is FleetState.DONE else recorded


def turn_state(turn: Turn, workload: WorkloadView, inputs: TurnInputs) -> FleetState:
    """How far a turn is. One that makes no progress ends, where the InferenceDeployment was not healthy before."""
    if not workload.rolling and workload.ready >= workload.desired and (inputs.is_ready or not turn.healthy):
        return FleetState.DONE
    # The deadline is that of one pod. A workload that measures none itself, or is edited by hand, ends its turn too.
    is_late = (inputs.now - turn.since) / (workload.desired + 1) >= workload.deadline
    if workload.failed or is_late:
        return FleetState.FAILED if turn.healthy else FleetState.DONE
    is_worse = turn.healthy and (inputs.is_stalled or not (inputs.is_ready or inputs.has_gap))
    return FleetState.FAILED if is_worse else FleetState.ROLLING


def state_of_turns(workloads: Iterable[Sequence[Manifest]], inputs: TurnInputs) -> FleetState:
    """The state of an InferenceDeployment by the turns of each role and of the routers: the worst one counts."""
    turns = ((recorded_turn(of_role[0]), role_view(of_role)) for of_role in workloads if of_role)
    states = {turn_state(turn, view, inputs) for turn, view in turns if turn}
    return next((state for state in (FleetState.FAILED, FleetState.ROLLING) if state in states), FleetState.DONE)
