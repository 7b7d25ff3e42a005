"""Moves engines away from nodes that are leaving: the successor of an engine starts first, and then the engine ends.

The only router of a service moves by the same rules: read "router" for "engine". It needs no GPU.

1. A draining engine serves and has a pod on a node that is leaving. One that does not serve has nothing to
   lose: it ends with its node. Once its move has begun it stays draining, since its successor must not end for a moment
   in which it is not ready. During a rollout the new engines are the successors.
2. For each draining engine there is a temporary engine above the wanted number, if there is a place: free GPUs, or a
   node that may come, or GPUs that nobody can count. Old groups are kept beside new ones instead.
3. Temporary engines stay until as many other engines serve as are wanted. By then each draining engine is marked as the
   first to go, so that a ReplicaSet ends it and not its successor, which serves.
4. A successor that has waited too long for a node, or that a quota or a volume keeps from starting, ends. It is not
   tried again while an engine drains: a cordon may last for days, and a node autoscaler that cannot add a node does
   not learn to. The same holds for a successor that got a node that is leaving, whose sign keeps no pods away: its own
   successor would get one too.
5. Autoscaling knows nothing of temporary engines: the limits hold for the wanted number.

An eviction is refused while the engine is the only one, from the start, and while it moves and its successor is not
ready (`workload/eviction/budget.py`). The operator allows it when no successor can be had, when the machine ends soon
anyway, after a time, and where that time cannot be written down.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import Field, TypeAdapter

from inference_operator.api.duration import in_words
from inference_operator.objects.annotation import JsonAnnotation, UtcTime
from inference_operator.sentences import sentences
from inference_operator.views.draining_node import DrainingNode
from inference_operator.views.engine import EngineView
from inference_operator.views.lookups import ClusterGpus, FreeGpusLookup, LookupResults
from inference_operator.views.node import requested_amount
from inference_operator.views.workload import TEMPORARY_ANNOTATION, role_view
from inference_operator.workload.eviction.budget import Disruption
from inference_operator.workload.eviction.obstacles import (
    FAILING,
    NOT_READY,
    OBSTACLES,
    ROOM,
    UNSCHEDULABLE_LIMIT,
    Start,
    obstacles,
)
from inference_operator.workload.eviction.rollout import EngineSet, engine_capacity, old_engines_run, unfinished_groups

DRAINING_COST = -1
"""Deletion cost of a draining engine. Every other engine has 0 or more."""

START_MARGIN = 2
"""The default wait of an eviction is so many times the measured start: the next node may not have the image."""


@dataclass(frozen=True, slots=True)
class MoveRecord:
    since: UtcTime
    """When the operator first saw that an engine has to move."""
    gave_up: bool = False
    """Whether a successor waited too long for a node, or for what kept it from starting."""
    obstacle: Annotated[str, Field(exclude_if=operator.not_)] = ""
    """The name of what kept it from starting (`workload/eviction/obstacles.py`), if it was not the lack of a node."""


MOVE_ANNOTATION = JsonAnnotation("inference-operator.dev/move", TypeAdapter(MoveRecord))
"""Annotation of a workload: since when one of its engines has to move, and whether its successor could not start."""


@dataclass(frozen=True, slots=True)
class Move:
    wanted: int = 0
    draining: tuple[EngineView, ...] = ()
    temporary: int = 0
    """Engines above the wanted number."""
    moves: bool = False
    """Whether successors start before the draining engines end."""
    record: MoveRecord | None = None
    may_refuse: bool = False
    refuses: bool = False
    """Whether an eviction is refused now, until a successor serves."""
    notice: str = ""
    """What happens, for users, in sentences; empty if nothing does."""
    lookups: tuple[FreeGpusLookup, ...] = ()
    due: datetime | None = None
    """When some of this changes without an event."""

    def annotations(self, replicas: int) -> Mapping[str, str]:
        """The workload's annotations by which the next decision knows of the move; replicas include temporary ones."""
        return {
            **MOVE_ANNOTATION.entry(self.record),
            **({TEMPORARY_ANNOTATION: f"{self.temporary}/{replicas}"} if self.temporary else {}),
        }

    def disruption(self, serving: Sequence[int], planned_pods: int = 1) -> Disruption:
        """What the budget has to know; `serving` has the pods of each engine that serves."""
        return Disruption(
            wanted=self.wanted,
            planned_pods=planned_pods,
            serving=serving,
            leaves=bool(self.draining),
            refuses=self.refuses,
        )

    @property
    def groups(self) -> frozenset[str]:
        """The groups that are replaced as if they were of an earlier template."""
        return frozenset(engine.leader.group for engine in self.draining if self.moves and engine.leader.group)


NO_MOVE = Move()
"""Nothing has to move, and no budget is needed for that."""


def move(inputs: EngineSet, results: LookupResults, now: datetime) -> Move:
    visible, is_single = inputs.leaving is not None, inputs.wanted == 1
    waits = (inputs.budgets or inputs.wanted > 1) and inputs.eviction_wait != timedelta(0)
    may_refuse = waits and visible
    draining = _draining(inputs)
    missing, known = inputs.wanted - _others(inputs), _recorded(inputs) or MoveRecord(_begin(inputs, now))
    if not draining or not inputs.wanted:
        notice = _UNSEEN.format(inputs.noun) if is_single and waits and not visible else ""
        kept = Move(temporary=_live_temporary(inputs), record=known) if _lost_its_node(inputs, missing, now) else Move()
        return replace(
            kept, wanted=inputs.wanted, may_refuse=may_refuse, refuses=may_refuse and is_single, notice=notice
        )
    lookup, place = _place(inputs, results, draining, missing)
    ends, obstacle = _gives_up(inputs, known, results)
    is_late = ends is not None and ends <= now
    record = replace(
        known,
        gave_up=known.gave_up or is_late or _came_to_a_leaving_node(inputs, known),
        obstacle=obstacle if is_late and not known.gave_up else known.obstacle,
    )
    has_place = place != 0 or _live_temporary(inputs) > 0 or _has_more(inputs)  # those have theirs
    moves = missing <= 0 or ((has_place or old_engines_run(inputs)) and not record.gave_up)
    late = record.since + _wait(inputs, draining)
    is_soon = any(node.is_soon for engine in draining if (node := _node_of(inputs, engine)))
    is_kept = _recorded(inputs) is not None or inputs.can_record
    refuses = may_refuse and moves and not is_soon and now < late and is_kept
    due = (late if refuses else None, ends)
    return Move(
        wanted=inputs.wanted,
        draining=draining,
        temporary=_temporary(inputs, draining, place, missing) if moves else 0,
        moves=moves and (place is not None or _recorded(inputs) is not None),
        record=record,
        may_refuse=may_refuse,
        refuses=refuses,
        notice=_notice(inputs, draining, late if refuses else None, record, moves=moves),
        lookups=(lookup,) if lookup else (),
        due=min((moment for moment in due if moment and moment > now), default=None),
    )


_UNSEEN = "The operator cannot see nodes, so a drain ends the only {} before another one is ready."


def _recorded(inputs: EngineSet) -> MoveRecord | None:
    return MOVE_ANNOTATION.read(inputs.live)


def _live_temporary(inputs: EngineSet) -> int:
    return role_view(inputs.workloads).temporary


def _node_of(inputs: EngineSet, engine: EngineView) -> DrainingNode | None:
    """The node of an engine that is leaving, one that ends soon first; None if all of its nodes stay."""
    nodes = [node for name in engine.nodes if (node := (inputs.leaving or {}).get(name))]
    return max(nodes, key=lambda node: node.is_soon, default=None)


def _begin(inputs: EngineSet, now: datetime) -> datetime:
    """When the move begins: after the second in which the youngest engine of these nodes was created: no successor."""
    there = (engine for engine in inputs.engines if _node_of(inputs, engine) and not engine.terminating)
    return max([now, *(engine.created + timedelta(seconds=1) for engine in there if engine.created)])


def _draining(inputs: EngineSet) -> tuple[EngineView, ...]:
    """The engines that have to move: those that serve, and once a move has begun all that have not ended."""
    concerned = (
        engine for engine in inputs.engines if not (engine.terminating or engine.failed) and _node_of(inputs, engine)
    )
    return tuple(engine for engine in concerned if engine.is_serving or _recorded(inputs))


def _lost_its_node(inputs: EngineSet, missing: int, now: datetime) -> bool:
    """Whether a successor starts while its engine's node is gone from the API, and the pod is not yet.

    An engine without a node has lost none: it waits for one, as before the move.
    """
    record = _recorded(inputs)
    if record is None or record.gave_up or missing <= 0 or now >= record.since + _wait(inputs, ()):
        return False
    silent = (engine for engine in inputs.engines if not (engine.is_serving or engine.terminating))
    return _has_more(inputs) and any(engine.nodes for engine in silent)


def _has_more(inputs: EngineSet) -> bool:
    """Whether there are more engines than are wanted: a successor exists."""
    return sum(not (engine.terminating or engine.failed) for engine in inputs.engines) > inputs.wanted


def _came_to_a_leaving_node(inputs: EngineSet, record: MoveRecord) -> bool:
    """Whether a node that is leaving got an engine after the move had begun. Pods have the second of their creation."""
    since = record.since.replace(microsecond=0)
    return _recorded(inputs) is not None and any(
        engine.created and engine.created >= since
        for engine in inputs.engines
        if _node_of(inputs, engine) and not engine.terminating
    )


def _others(inputs: EngineSet) -> int:
    """The engines that serve and stay."""
    return sum(
        engine.is_serving and not _node_of(inputs, engine) and engine.template == inputs.template
        for engine in inputs.engines
    )


def _temporary(inputs: EngineSet, draining: Sequence[EngineView], place: int | None, missing: int) -> int:
    """Engines above the wanted number: the successors, until others serve and the draining engines are marked.

    A ReplicaSet that has too many pods ends those first that are not ready. So those that are not needed go before or
    after successors start, and not meanwhile.
    """
    pods = [engine.leader for engine in draining if not engine.leader.group]
    if old_engines_run(inputs) or not pods:
        return 0
    if place is None:
        return _live_temporary(inputs)
    unneeded = len(pods) - missing
    if missing <= 0 or (unneeded > 0 and not _starting(inputs)):
        return 0 if all(pod.deletion_cost <= DRAINING_COST for pod in pods) else _live_temporary(inputs)
    return max(0, unneeded + min(place, missing))


def _place(
    inputs: EngineSet, results: LookupResults, draining: Sequence[EngineView], missing: int
) -> tuple[FreeGpusLookup | None, int | None]:
    """How many successors find a place at most, and the lookup that tells; None until it has.

    While there are temporary engines no others are added: a new count of free GPUs may still have theirs.
    """
    if inputs.one_node is not False:
        return None, 0 if inputs.one_node else None
    needed = requested_amount(inputs.pod, inputs.gpu_resource)
    if not needed or inputs.node_wait is not None:
        return None, max(1, missing)
    lookup = FreeGpusLookup(inputs.gpu_resource)
    gpus = results.get(lookup)
    if not isinstance(gpus, ClusterGpus):
        return lookup, max(1, missing) if lookup in results else None
    if _live_temporary(inputs):
        return lookup, max(0, _live_temporary(inputs) - len(draining) + missing)
    staying = replace(gpus, nodes=tuple(node for node in gpus.nodes if node.node.name not in (inputs.leaving or {})))
    free = engine_capacity(staying, inputs.pod, needed, pods=inputs.pods_per_engine).free
    return lookup, _starting(inputs) + free


def _starting(inputs: EngineSet) -> int:
    """The engines that start on nodes that stay, or wait for one."""
    return sum(
        not (engine.terminating or engine.failed or engine.is_serving or _node_of(inputs, engine))
        for engine in inputs.engines
    )


def _gives_up(inputs: EngineSet, record: MoveRecord, results: LookupResults) -> tuple[datetime | None, str]:
    """When a successor has waited too long, and the obstacle if it is no lack of a node; None if nothing holds it."""
    since = record.since.replace(microsecond=0)
    staying = [engine for engine in inputs.engines if not engine.terminating]
    start = Start(
        new=[engine for engine in staying if not engine.is_serving],
        old=[engine for engine in staying if _node_of(inputs, engine)],
        workload=role_view(inputs.workloads if _live_temporary(inputs) or old_engines_run(inputs) else ()),
        groups=unfinished_groups(inputs),
        namespace=inputs.namespace,
        results=results,
    )
    waits = [
        (
            max(begin, since) + (inputs.node_wait if inputs.node_wait and obstacle.node_helps else obstacle.limit),
            obstacle,
        )
        for obstacle, begin in obstacles(start)
        if obstacle not in (FAILING, NOT_READY)
    ]
    ends, first = min(waits, key=lambda wait: wait[0], default=(None, ROOM))
    return ends, "" if first.node_helps else first.name


def _wait(inputs: EngineSet, draining: Sequence[EngineView]) -> timedelta:
    """How long an eviction waits: as requested, else as long as a node and a start may take."""
    if inputs.eviction_wait is not None:
        return inputs.eviction_wait
    measured = _measured_start(draining)
    start = min(inputs.longest_start, START_MARGIN * measured) if measured else inputs.longest_start
    return min(start + (inputs.node_wait or UNSCHEDULABLE_LIMIT), inputs.longest_wait)


def _measured_start(draining: Sequence[EngineView]) -> timedelta | None:
    return max((times.ready - times.created for engine in draining if (times := engine.startup_times)), default=None)


def _notice(
    inputs: EngineSet, draining: Sequence[EngineView], late: datetime | None, record: MoveRecord, *, moves: bool
) -> str:
    """What happens to the draining engines, and until when a drain waits."""
    places = {node.name: node.why for engine in draining if (node := _node_of(inputs, engine))}
    what = f"the only {inputs.noun}" if inputs.wanted == 1 else f"an {inputs.noun}"
    where = sentences(*(f"Node `{name}`, {why}, has {what} of this service." for name, why in places.items()))
    if not moves:
        why = next((row.no_successor for row in OBSTACLES if row.name == record.obstacle), ROOM.no_successor)
        return sentences(where, _gap(draining, why) if inputs.wanted == len(draining) else f"{why}.")
    waits = f"A drain waits for it until {late.astimezone(UTC):%H:%M:%S} UTC at the latest." if late else ""
    return sentences(where, "Its successor starts before it ends.", waits)


def _gap(draining: Sequence[EngineView], why: str) -> str:
    """How long a drain interrupts a service without a place for a successor, as far as a start was measured."""
    warning = f"{why}: a drain interrupts the service until it has started elsewhere."
    start = _measured_start(draining)
    if not start:
        return warning
    unit = timedelta(minutes=1) if start > timedelta(seconds=90) else timedelta(seconds=10)
    return sentences(warning, f"Its last start took about {in_words(-(-start // unit) * unit)}.")
