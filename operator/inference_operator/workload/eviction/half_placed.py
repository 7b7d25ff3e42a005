"""Groups that have nodes for a part of their pods only: which of them give these back, so that none blocks another.

Without a gang scheduler, two groups can each hold what the other one lacks. So that one of them always gets it:

1. A group is half placed while some of its pods have a node and others lack a resource.
2. It is older than another one if its pods have run before and those of the other one have not; else by its creation,
   its namespace and its name. This is a total order, so exactly one of those that compete is the oldest.
3. It gives its room back when an older half-placed group of any InferenceDeployment has lacked for a wait what it
   holds. The oldest keeps its nodes and waits.
4. The wait begins with the last change of its pods. It is longer if a node autoscaler has said that a node comes.
5. To give back, its StatefulSet gets no pods for a time, which doubles with each time in a row. Then it tries again.
6. An annotation of its StatefulSet has when that was, and how often. It ends when all of its pods have nodes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field, TypeAdapter

from inference_operator.api.reasons import Reason
from inference_operator.backoff import exponential_backoff
from inference_operator.diagnosis.component import DiagnosisInputs
from inference_operator.diagnosis.node_autoscaler import autoscaler_answer, autoscaler_lookup
from inference_operator.manifest import Manifest
from inference_operator.objects.annotation import JsonAnnotation, Time
from inference_operator.roles.context import RoleContext
from inference_operator.sentences import sentences
from inference_operator.views.engine import EngineView
from inference_operator.views.lookups import EventsLookup
from inference_operator.views.node import NodeView
from inference_operator.views.node_fit import matches_node
from inference_operator.views.pod import PodView
from inference_operator.views.raw import annotations, mapping, objects, timestamp

GROUP_WAIT = timedelta(seconds=60)
"""How long a group may be half placed while an older one lacks what it holds. The scheduler tries a pod again within
10 s (Kubernetes 1.36, `podMaxBackoffSeconds`), and autoscalers say within 30 s what they do: see `EVENTS_LOOKUP_AFTER`.
"""

NODE_WAIT = timedelta(minutes=10)
"""The same where a node autoscaler has said that a node comes. Nodes with GPUs take five to ten minutes: the instance,
its driver and the device plugin. cluster-autoscaler gives a node 15 minutes (1.36, `--max-node-provision-time`)."""

FIRST_BACKOFF, LONGEST_BACKOFF = timedelta(seconds=30), timedelta(minutes=10)
"""How long a group has no pods. At first, three times the longest time after which the scheduler tries the pods of the
older group again; at most as long as a node may take."""

RECHECK = timedelta(seconds=10)
"""Interval at which a half-placed group looks at the others: their changes are no events of its own resource."""

MOST_TIMES = 2**31
"""A record of more is one that somebody edited: at one each `LONGEST_BACKOFF`, they take 40,000 years."""

_LACKED = re.compile(r"Insufficient (?P<resource>[-A-Za-z0-9_./]{1,316}?)(?=[,.]?(?:\s|$))")
"""The scheduler's words for a resource that a node lacks (Kubernetes 1.36,
pkg/scheduler/framework/plugins/noderesources/fit.go)."""


@dataclass(frozen=True, slots=True)
class HalfPlaced:
    namespace: str
    name: str
    """Name of its StatefulSet."""
    created: datetime
    has_run: bool
    """Whether its members have run together before."""
    since: datetime
    """Since when none of its pods was created or placed."""
    lacks: frozenset[str]
    """The resources that its other pods lack."""
    nodes: tuple[str, ...]
    pod: Manifest

    @property
    def order(self) -> tuple[bool, datetime, str, str]:
        """The order of half-placed groups, by rule 2; the least keeps its nodes."""
        return not self.has_run, self.created, self.namespace, self.name


def is_half_placed(engine: EngineView) -> bool:
    if not engine.leader.group or engine.terminating:
        return False
    return any(pod.node for pod in engine.pods) and any(_lacked(engine))


def half_placed(engine: EngineView, group: Manifest) -> HalfPlaced | None:
    """The group, if it is half placed and its times are known."""
    meta = group["metadata"]
    created, placed = timestamp(meta.get("creationTimestamp")), [pod for pod in engine.pods if pod.node]
    moments = [*(pod.created for pod in _waiting(engine)), *(_placed_at(pod) for pod in placed)]
    since = max(filter(None, moments), default=None)
    if not is_half_placed(engine) or created is None or since is None:
        return None
    return HalfPlaced(
        namespace=meta["namespace"],
        name=meta["name"],
        created=created,
        has_run=any(map(_has_run, placed)),
        since=since,
        lacks=frozenset(_lacked(engine)),
        nodes=engine.nodes,
        pod=mapping(group, "spec", "template", "spec"),
    )


@dataclass(frozen=True, slots=True)
class GivenBack:
    at: Time
    times: Annotated[int, Field(ge=1, le=MOST_TIMES)] = 1
    older: str = ""
    """Name of the older group; empty if that is in another namespace."""

    @property
    def until(self) -> datetime:
        return self.at + exponential_backoff(self.times, first=FIRST_BACKOFF, longest=LONGEST_BACKOFF)

    def is_off(self, now: datetime) -> bool:
        return self.at <= now < self.until


GIVEN_BACK_ANNOTATION = JsonAnnotation("inference-operator.dev/given-back", TypeAdapter(GivenBack))


@dataclass(frozen=True, slots=True)
class Yielding:
    records: Mapping[str, GivenBack | None]
    """By the names of their StatefulSets; None if a record has ended."""
    off: frozenset[str] = frozenset()
    due: datetime | None = None
    lookups: tuple[EventsLookup, ...] = ()
    """What a node autoscaler says about groups that may have to give their room back."""

    @property
    def notice(self) -> str:
        """Sentences about those that have no pods now; empty if there are none."""
        pairs = ((name, self.records[name]) for name in sorted(self.off))
        return sentences(*(_sentence(name, record) for name, record in pairs if record))

    @property
    def texts(self) -> Mapping[str, str]:
        """The annotations' values; empty where a record has ended, since that alone changes a live annotation."""
        return {name: GIVEN_BACK_ANNOTATION.write(record) if record else "" for name, record in self.records.items()}


def _sentence(name: str, record: GivenBack) -> str:
    older = f"the older group `{record.older}`" if record.older else "an older group in another namespace"
    return (
        f"Group `{name}` had nodes for a part of its pods only and gave them back for {older}; it tries again at"
        f" {record.until:%H:%M:%S} UTC."
    )


def yielding(context: RoleContext, half: Sequence[HalfPlaced]) -> Yielding:
    """Which groups of a role give their room back, by the rules at the top; `half` has those of all resources."""
    engines, live = context.live.engines_of_groups, context.live.groups
    own = {group.name: group for group in half if group.namespace == context.owner.key.namespace and group.name in live}
    by_name = {name: _record(context, group, engines.get(name), half) for name, group in live.items()}
    records = {
        name: record
        for name, record in by_name.items()
        if record or GIVEN_BACK_ANNOTATION.key in annotations(live[name])
    }
    off = {name: record.until for name, record in by_name.items() if record and record.is_off(context.now)}
    times = [*off.values(), *([context.now + RECHECK] if own.keys() - off.keys() else [])]
    looks = (_lookup(context, engines[name]) for name, group in own.items() if _older(group, half, context.nodes))
    return Yielding(records, frozenset(off), min(times, default=None), tuple(look for look in looks if look))


def _record(
    context: RoleContext, group: Manifest, engine: EngineView | None, half: Sequence[HalfPlaced]
) -> GivenBack | None:
    live, now = GIVEN_BACK_ANNOTATION.read(group), context.now
    if live and live.is_off(now):
        return live
    mine = half_placed(engine, group) if engine else None
    if engine is None or mine is None:
        return None if engine and _is_whole(engine, group) else live
    older = _older(mine, half, context.nodes)
    if older is None or not _has_waited(context, engine, mine):
        return live
    known = older.name if older.namespace == mine.namespace else ""
    return GivenBack(now.replace(microsecond=0), live.times + 1 if live else 1, known)


def _is_whole(engine: EngineView, group: Manifest) -> bool:
    size = mapping(group, "spec").get("replicas") or 0
    return 0 < size <= len(engine.pods) and engine.is_scheduled and not engine.terminating


def _older(mine: HalfPlaced, half: Sequence[HalfPlaced], nodes: Sequence[NodeView] | None) -> HalfPlaced | None:
    """The oldest group that lacks what this one holds."""
    older = [group for group in half if group.order < mine.order and _could_use(group, mine, nodes)]
    return min(older, key=lambda group: group.order, default=None)


def _could_use(older: HalfPlaced, mine: HalfPlaced, nodes: Sequence[NodeView] | None) -> bool:
    """Whether the older group lacks what a pod of this one requests, and may run on one of its nodes.

    Of a node that the operator cannot see, it is assumed.
    """
    known = {node.name: node for node in nodes or ()}
    held = (known.get(name) for name in mine.nodes)
    return bool(older.lacks & _requested(mine.pod)) and any(
        node is None or matches_node(node, older.pod) for node in held
    )


def _requested(pod: Manifest) -> frozenset[str]:
    stated = (mapping(container, "resources") for container in objects(pod, "containers"))
    return frozenset(
        name for resources in stated for part in ("limits", "requests") for name in mapping(resources, part)
    )


def _has_waited(context: RoleContext, engine: EngineView, mine: HalfPlaced) -> bool:
    """Whether the group has been half placed for long enough, also for a node that comes.

    While it is not known what a node autoscaler says, as after a restart of the operator, it waits.
    """
    look, asked = _lookup(context, engine), _diagnosis_inputs(context)
    if context.now < mine.since + GROUP_WAIT or (look and look not in context.lookups):
        return False
    answers = (autoscaler_answer(pod, asked) for pod in _waiting(engine))
    comes = any(answer is not None and answer.node_comes for answer in answers)
    return not comes or context.now >= mine.since + NODE_WAIT


def _lookup(context: RoleContext, engine: EngineView) -> EventsLookup | None:
    """The Events of its first pod without a node. An autoscaler speaks to all of them alike."""
    return next((autoscaler_lookup(pod, _diagnosis_inputs(context)) for pod in _waiting(engine)), None)


def _diagnosis_inputs(context: RoleContext) -> DiagnosisInputs:
    namespace, lookups = context.owner.key.namespace, context.lookups
    return DiagnosisInputs(namespace, {}, lookups, read_logs=False, nodes_visible=False, now=context.now)


def _waiting(engine: EngineView) -> Sequence[PodView]:
    """Its pods that fit on no node, in their order."""
    return [pod for pod in engine.pods if pod.problem is not None and pod.problem.reason is Reason.UNSCHEDULABLE]


def _lacked(engine: EngineView) -> Iterator[str]:
    causes = (pod.problem.cause for pod in _waiting(engine) if pod.problem)
    return (match["resource"] for cause in causes for match in _LACKED.finditer(cause))


def _has_run(pod: PodView) -> bool:
    """Whether a member has run: alone, it is never ready and never ends, since it waits for the others."""
    return pod.ready or (pod.problem is not None and pod.problem.terminated is not None)


def _placed_at(pod: PodView) -> datetime | None:
    return pod.start.placed if pod.start and pod.start.placed else pod.created
