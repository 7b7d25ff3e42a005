"""The turn of an InferenceDeployment: it replaces pods for a change of the owner, until they are healthy.

A turn is an annotation of the workload, written together with the new pod template. So it is known after a restart of
the operator, and it ends when somebody edits the resource: another template has no turn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import TypeAdapter

from inference_operator.fleet.rollout_slots import FleetState
from inference_operator.manifest import Manifest
from inference_operator.objects.annotation import JsonAnnotation, UtcSecond
from inference_operator.objects.pinned import PinUse
from inference_operator.views.workload import WorkloadView, role_view, workload_view


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn."""

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
    """The turn that the desired workload has."""
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
    """The state of an InferenceDeployment by the turns of its live workloads: the worst one counts.

    Args:
        workloads: the live workloads of each role and of the routers, the newest first.
    """
    turns = ((recorded_turn(of_role[0]), role_view(of_role)) for of_role in workloads if of_role)
    states = {turn_state(turn, view, inputs) for turn, view in turns if turn}
    return next((state for state in (FleetState.FAILED, FleetState.ROLLING) if state in states), FleetState.DONE)
