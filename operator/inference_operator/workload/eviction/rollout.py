"""Rollout strategy of a workload: surge or replace. Decided when the pod template changes, then recorded.

Rules of `rollout`, the first that applies:

- `spec.rollout.strategy` names a strategy: that one.
- The live workload records a decision for this template: it stays. If the surge engine has waited too long for what the
  end of an old engine gives it (`workload/eviction/obstacles.py`), the rollout switches to replace.
- Pods on one node only can mount the volumes, and the surge pod is on another one: switch to replace.
- No engine of an earlier template runs: surge.
- Free GPUs have not been looked up yet: undecided, the live Deployment stays as it is.
- A node has free GPUs for one more engine: surge.
- Ending an engine would not make place for the new one (it needs more GPUs, or a node that does not exist): surge.
- The lookup shows no free GPUs: replace. Without a result: surge.
- Nodes can be added and at most one engine is ready: surge instead of replace. It waits longer for a node before the
  rollout switches to replace, because that ends the last engine.
"""

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import product
from typing import Annotated

from pydantic import Field, TypeAdapter

from inference_operator.api.spec import RolloutStrategy
from inference_operator.diagnosis.pending_causes import creation_wait
from inference_operator.manifest import STATEFUL_SET, Manifest
from inference_operator.objects.annotation import JsonAnnotation
from inference_operator.quantity import value
from inference_operator.text_tables import blocks
from inference_operator.views.draining_node import DrainingNode
from inference_operator.views.engine import EngineView
from inference_operator.views.lookups import ClusterGpus, EventsLookup, FreeGpusLookup, LookupResults
from inference_operator.views.node import requested_amount
from inference_operator.views.node_fit import engines_in, schedulable_now
from inference_operator.views.raw import mapping, objects
from inference_operator.views.workload import DEFAULT_PROGRESS_DEADLINE, role_view, workload_view
from inference_operator.workload.eviction.obstacles import (
    ATTACHED,
    EXCLUSIVE,
    NOT_READY,
    QUOTA,
    Lasting,
    Obstacle,
    Start,
    obstacles,
)


class RolloutReason(StrEnum):
    """Why a strategy was chosen; `WHY` says it in words."""

    NOTHING_RUNS = "NothingRuns"
    ASKED = "Asked"
    FREE_SLOT = "FreeSlot"
    NO_FREE_SLOT = "NoFreeSlot"
    UNKNOWN = "Unknown"
    NO_GPUS = "NoGpus"
    NO_USE = "NoUse"
    UNSCHEDULABLE = "Unschedulable"
    NODE_MAY_COME = "NodeMayCome"
    NO_NODE_CAME = "NoNodeCame"
    ONE_NODE = "OneNode"
    QUOTA_FULL = "QuotaFull"
    VOLUME_IN_USE = "VolumeInUse"


(_REASONS,) = blocks(__package__, "rollout-reasons")
WHY: Mapping[RolloutReason, str] = {
    RolloutReason(reason): words for reason, words in (line.split(" ", 1) for line in _REASONS)
}
"""The end of a sentence about a strategy, in the status and in `infd plan --diff`."""

_MAY_SWITCH = frozenset(
    {
        RolloutReason.NOTHING_RUNS,
        RolloutReason.FREE_SLOT,
        RolloutReason.UNKNOWN,
        RolloutReason.NO_GPUS,
        RolloutReason.ASKED,
        RolloutReason.NODE_MAY_COME,
    }
)


_LATE: Mapping[Obstacle, RolloutReason] = {
    QUOTA: RolloutReason.QUOTA_FULL,
    EXCLUSIVE: RolloutReason.VOLUME_IN_USE,
    ATTACHED: RolloutReason.VOLUME_IN_USE,
}
"""Why a rollout switches to replace, beside the lack of a node."""


@dataclass(frozen=True, slots=True)
class Rollout:
    template: str
    """The hash of the pod template that it is for."""
    strategy: RolloutStrategy
    why: RolloutReason
    needs_more: Annotated[bool, Field(exclude_if=operator.not_)] = False
    """Whether a new engine requests more of anything than an old one, which then may not make place for it."""


ROLLOUT_ANNOTATION = JsonAnnotation("inference-operator.dev/rollout", TypeAdapter(Rollout))
"""Annotation of a workload: the decision for its template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSet:
    """The engines of a role, or the routers, as they are and as they should become."""

    engines: Sequence[EngineView]
    workloads: Sequence[Manifest]
    """Their live workload, the newest object first."""
    template: str
    pod: Manifest = field(default_factory=dict)
    gpu_resource: str = ""
    pods_per_engine: int = 1
    """Each has its own GPUs."""
    wanted: int = 1
    strategy: RolloutStrategy = RolloutStrategy.AUTO
    leaving: Mapping[str, DrainingNode] | None = None
    node_wait: timedelta | None = None
    """How long a successor waits for a new node; None where nodes cannot be added."""
    one_node: bool | None = False
    """Whether only pods on one node can mount the volumes at a time; None until their claims are looked up."""
    longest_start: timedelta
    eviction_wait: timedelta | None
    """How long an eviction waits, as requested; None for the default, and nothing for no wait."""
    longest_wait: timedelta = timedelta.max
    budgets: bool = True
    """Whether the administrator allows to refuse the eviction of the only engine."""
    can_record: bool = True
    """Whether the API server takes what the operator writes: else nobody would know how long an eviction has waited."""
    noun: str = "engine"
    """What an engine is called in notices."""

    @property
    def live(self) -> Manifest | None:
        return next(iter(self.workloads), None)

    @property
    def namespace(self) -> str:
        return str(mapping(self.live or {}, "metadata").get("namespace", ""))

    @property
    def waits_for_node(self) -> bool:
        """Whether a rollout waits for a node: one may come, and to replace would end the last ready engine."""
        ready = sum(engine.is_serving for engine in self.engines)
        return self.node_wait is not None and ready <= 1

    @property
    def recorded(self) -> Rollout | None:
        rollout = ROLLOUT_ANNOTATION.read(self.live)
        return rollout if rollout and rollout.template == self.template else None


def rollout(
    inputs: EngineSet, results: LookupResults, *, nodes_visible: bool, now: datetime
) -> Rollout | FreeGpusLookup:
    """The decision, or the lookup that it needs. The live workload stays as it is until then."""
    template = inputs.template
    if inputs.strategy is not RolloutStrategy.AUTO:
        return Rollout(template, inputs.strategy, RolloutReason.ASKED)
    if inputs.recorded:
        if inputs.one_node and _is_apart(inputs):
            return _replace(template, RolloutReason.ONE_NODE)
        switch = _switch(inputs, results)
        return _replace(template, switch.why) if switch and switch.due <= now else inputs.recorded
    if inputs.live is None or not old_engines_run(inputs):
        return _surge(template, RolloutReason.NOTHING_RUNS)
    if not requested_amount(inputs.pod, inputs.gpu_resource):
        decided: Rollout | FreeGpusLookup = _surge(template, RolloutReason.NO_GPUS)
    else:
        decided = _by_free_gpus(inputs, inputs.live, results, nodes_visible=nodes_visible)
    if isinstance(decided, FreeGpusLookup) or decided.why not in _MAY_SWITCH:
        return decided
    return replace(decided, needs_more=_needs_more(inputs.pod, mapping(inputs.live, "spec", "template", "spec")))


def _by_free_gpus(
    inputs: EngineSet, live: Manifest, results: LookupResults, *, nodes_visible: bool
) -> Rollout | FreeGpusLookup:
    template, needed = inputs.template, requested_amount(inputs.pod, inputs.gpu_resource)
    freed = requested_amount(mapping(live, "spec", "template", "spec"), inputs.gpu_resource)
    lookup = FreeGpusLookup(inputs.gpu_resource)
    if nodes_visible and lookup not in results:
        return lookup
    gpus = results.get(lookup)
    known = gpus if isinstance(gpus, ClusterGpus) else None
    capacity = engine_capacity(known, inputs.pod, needed, pods=inputs.pods_per_engine) if known else None
    if capacity and capacity.free:
        return _surge(template, RolloutReason.FREE_SLOT)
    if needed > freed or (capacity and not capacity.possible):
        return _surge(template, RolloutReason.NO_USE)
    if not capacity:
        return _surge(template, RolloutReason.UNKNOWN)
    if inputs.waits_for_node:
        return _surge(template, RolloutReason.NODE_MAY_COME)
    return _replace(template, RolloutReason.NO_FREE_SLOT)


@dataclass(frozen=True, slots=True)
class _Switch:
    due: datetime
    why: RolloutReason


def switch_due(inputs: EngineSet, results: LookupResults) -> datetime | None:
    """When a surge switches to replace; None if nothing hinders its engine, or if ending another would not help."""
    switch = _switch(inputs, results)
    return switch.due if switch else None


def _switch(inputs: EngineSet, results: LookupResults) -> _Switch | None:
    recorded = inputs.recorded
    if inputs.strategy is not RolloutStrategy.AUTO or recorded is None or not old_engines_run(inputs):
        return None
    if recorded.strategy is not RolloutStrategy.SURGE or recorded.why not in _MAY_SWITCH:
        return None
    without_node = RolloutReason.NO_NODE_CAME if inputs.waits_for_node else RolloutReason.UNSCHEDULABLE
    switches = (
        _Switch(since + _limit(obstacle, inputs), _LATE.get(obstacle, without_node))
        for obstacle, since in obstacles(_start(inputs, results))
        if obstacle.removed
    )
    return min(switches, key=lambda switch: switch.due, default=None)


def surge_cure(inputs: EngineSet, results: LookupResults) -> str:
    """What lets a rollout go on that surges because it is asked to, in a sentence; empty if nothing needs it."""
    if inputs.strategy is not RolloutStrategy.SURGE or inputs.recorded is None or not old_engines_run(inputs):
        return ""
    return _REPLACE_INSTEAD if any(found.removed for found, _ in obstacles(_start(inputs, results))) else ""


def lasting_obstacle(inputs: EngineSet, results: LookupResults) -> Lasting | None:
    """What holds a rollout, and for which no engine ends: that does not help, or is not asked for; None if nothing.

    Where ending one helps, the rollout switches to replace, or has done so.
    """
    recorded = inputs.recorded
    if recorded is None or not old_engines_run(inputs):
        return None
    never_switches = inputs.strategy is not RolloutStrategy.AUTO or recorded.why is RolloutReason.NO_USE
    start = _start(inputs, results)
    found = (
        Lasting(start.ended(since), max(DEFAULT_PROGRESS_DEADLINE, _limit(obstacle, inputs)))
        for obstacle, since in obstacles(start)
        if obstacle is not NOT_READY and (never_switches or not obstacle.removed)
    )
    return min(found, key=lambda lasting: lasting.ends, default=None)


def refusal_of_groups(inputs: EngineSet, results: LookupResults) -> str:
    """Why Kubernetes makes no pods of new groups, which only Events tell; empty if it makes them."""
    return _start(inputs, results).refused()[0] if unfinished_groups(inputs) else ""


_REPLACE_INSTEAD = "With `spec.rollout.strategy: Replace`, an old engine ends before its successor starts."


def creation_lookups(inputs: EngineSet) -> Sequence[EventsLookup]:
    """The Events that show why new groups get no pods while engines run that they replace."""
    is_moving = any(not (inputs.leaving or {}).keys().isdisjoint(engine.nodes) for engine in inputs.engines)
    groups = unfinished_groups(inputs) if old_engines_run(inputs) or is_moving else ()
    return [wait.lookup for group in groups if (wait := creation_wait(group))]


def unfinished_groups(inputs: EngineSet) -> Sequence[Manifest]:
    made = Counter(pod.group for engine in inputs.engines for pod in engine.pods)
    groups = (workload for workload in inputs.workloads if workload.get("kind") == STATEFUL_SET.name)
    return [
        group
        for group in groups
        if workload_view(group).template == inputs.template
        and made[group["metadata"]["name"]] < mapping(group, "spec").get("replicas", 1)
    ]


def _start(inputs: EngineSet, results: LookupResults) -> Start:
    of_template = [engine for engine in inputs.engines if engine.template == inputs.template]
    return Start(
        new=[engine for engine in of_template if not (engine.terminating or engine.is_serving)],
        old=[engine for engine in inputs.engines if engine.template != inputs.template],
        ending=[engine for engine in inputs.engines if engine.terminating],
        workload=role_view(inputs.workloads),
        groups=unfinished_groups(inputs),
        namespace=inputs.namespace,
        needs_more=inputs.recorded is not None and inputs.recorded.needs_more,
        results=results,
    )


def _limit(obstacle: Obstacle, inputs: EngineSet) -> timedelta:
    waits = obstacle.node_helps and inputs.waits_for_node
    return inputs.node_wait if inputs.node_wait and waits else obstacle.limit


@dataclass(frozen=True, slots=True)
class EngineCapacity:
    free: int
    possible: bool
    """Whether any node could take one if it had no other pods."""


def engine_capacity(gpus: ClusterGpus, pod: Manifest, gpus_per_pod: int, *, pods: int = 1) -> EngineCapacity:
    """How many more engines of this pod specification the nodes can take, by GPUs alone.

    GPUs that our own pending pods request are subtracted, since the scheduler serves those first: from the nodes with
    the fewest, for nobody knows which it takes. There must be room for all pods of an engine, each on another node.
    """
    nodes = [node for node in gpus.nodes if schedulable_now(node.node, pod)]
    pending, places = -(-gpus.pending // gpus_per_pod), list[int]()
    for free in sorted(max(0, node.free) // gpus_per_pod for node in nodes):
        places.append(max(0, free - pending))
        pending = max(0, pending - free)
    possible = engines_in((node.total // gpus_per_pod for node in nodes), pods)
    return EngineCapacity(engines_in(places, pods), possible=possible > 0)


def _surge(template: str, why: RolloutReason) -> Rollout:
    return Rollout(template, RolloutStrategy.SURGE, why)


def _replace(template: str, why: RolloutReason) -> Rollout:
    return Rollout(template, RolloutStrategy.REPLACE, why)


def _is_apart(inputs: EngineSet) -> bool:
    """Whether a new engine waits on another node than all engines of earlier templates."""
    old = [engine for engine in inputs.engines if engine.template != inputs.template and engine.has_answered]
    new = [engine for engine in inputs.engines if engine.template == inputs.template and not engine.terminating]
    there = {node for engine in old for node in engine.nodes}
    return bool(there) and any(not (there.issuperset(other.nodes) or other.has_answered) for other in new)


def old_engines_run(inputs: EngineSet) -> bool:
    """Whether engines of an earlier template are left, which the rollout replaces."""
    old = (engine for engine in inputs.engines if engine.template != inputs.template)
    return any(not (engine.terminating or engine.failed) for engine in old)


def _needs_more(new: Manifest, old: Manifest) -> bool:
    """Whether one pod specification requests or limits more of anything than another, by the sums of containers."""
    before = _amounts(old)
    return any(amount > before.get(what, 0) for what, amount in _amounts(new).items())


def _amounts(pod: Manifest) -> Mapping[tuple[str, str], Decimal]:
    containers = (*objects(pod, "containers"), *objects(pod, "initContainers"))
    totals: dict[tuple[str, str], Decimal] = {}
    for container, kind in product(containers, ("requests", "limits")):
        for name, amount in mapping(container, "resources", kind).items():
            totals[kind, name] = totals.get((kind, name), Decimal(0)) + value(str(amount))
    return totals
