"""What keeps one more engine from starting, and whether the end of an old engine removes it: the table `OBSTACLES`.

While an engine still ends, its end may remove the obstacle by itself. So all limits but that of room count from then.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import InvalidOperation

from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.pending_causes import (
    CREATION_LOOKUP_AFTER,
    attached_elsewhere,
    creation_failure,
    creation_wait,
    problem_from_events,
    volume_wait,
)
from inference_operator.manifest import Manifest
from inference_operator.quantity import value
from inference_operator.views.engine import EngineView
from inference_operator.views.lookups import LookupResults, ObjectEvents
from inference_operator.views.pod import PodView
from inference_operator.views.workload import WorkloadView

UNSCHEDULABLE_LIMIT = timedelta(seconds=30)
"""How long an obstacle may last before a rollout switches to replace, where it does not wait for a node. The scheduler
and the controllers of Kubernetes try again within seconds after a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One more engine that should start."""

    new: Sequence[EngineView]
    """The engines that are to stay and do not serve."""
    old: Sequence[EngineView]
    ending: Sequence[EngineView] = ()
    workload: WorkloadView
    groups: Sequence[Manifest] = ()
    """The StatefulSets of new engines that lack pods: only Events show why."""
    namespace: str = ""
    needs_more: bool = False
    """Whether it requests more of anything than an old engine."""
    results: LookupResults

    def refused(self) -> tuple[str, datetime | None]:
        """Why Kubernetes makes no pod, and since when; empty if it does, or has not seen the latest specification."""
        if self.workload.rejection and self.workload.observed:
            return self.workload.rejection, self.workload.rejected_since
        for wait in filter(None, map(creation_wait, self.groups)):
            events = self.results.get(wait.lookup)
            if isinstance(events, ObjectEvents) and (message := creation_failure(events)):
                return message, wait.due - CREATION_LOOKUP_AFTER
        return "", None

    def unschedulable(self, words: re.Pattern[str]) -> datetime | None:
        """Since when the scheduler refuses a pod with a message in which these words are."""
        return _first(
            engine.created
            for engine in self.new
            if any(
                pod.problem and pod.problem.reason is Reason.UNSCHEDULABLE and words.search(pod.problem.cause)
                for pod in engine.pods
            )
        )

    def attached(self) -> datetime | None:
        """Since when a pod waits on its node for a volume that another node has."""
        return _first(self._attached_since(pod) for engine in self.new for pod in engine.pods)

    def _attached_since(self, pod: PodView) -> datetime | None:
        wait = volume_wait(pod, namespace=self.namespace)
        events = self.results.get(wait.lookup) if wait else None
        users = attached_elsewhere(events) if isinstance(events, ObjectEvents) else None
        names = {pod.name for engine in self.old for pod in engine.pods}
        is_ours = users is not None and (not users or not names.isdisjoint(users))
        return pod.start.placed if pod.start and is_ours else None

    def unmounted(self) -> datetime | None:
        """Since when a pod waits on its node for a volume that cannot be mounted."""
        waits = (
            (wait, pod.start.placed)
            for engine in self.new
            for pod in engine.pods
            if (wait := volume_wait(pod, namespace=self.namespace)) and pod.start
        )
        found = ((self.results.get(wait.lookup), placed) for wait, placed in waits)
        return _first(
            placed for events, placed in found if isinstance(events, ObjectEvents) and problem_from_events(events)
        )

    def ended(self, since: datetime) -> datetime:
        """The later of a time, and of when the engines that end now have ended."""
        return max([since, *(pod.ends_by for engine in self.ending for pod in engine.pods if pod.ends_by)])


@dataclass(frozen=True, slots=True)
class Lasting:
    """What keeps pods from starting, and until when it may."""

    since: datetime
    limit: timedelta

    @property
    def ends(self) -> datetime:
        return self.since + self.limit


@dataclass(frozen=True, slots=True)
class Obstacle:
    name: str
    since: Callable[[Start], datetime | None]
    """Its signal: since when it keeps the engine from starting; None if it does not."""
    removed: bool
    """Whether the end of an old engine removes it."""
    limit: timedelta = UNSCHEDULABLE_LIMIT
    node_helps: bool = False
    """Whether a new node would remove it too, so that it is worth to wait for one."""
    no_successor: str = "No other node has room for its successor"
    """Why an engine gets no successor, as a sentence without its end."""


_ROOM = re.compile(r"Insufficient |Too many pods")
"""The scheduler's words where a node would fit if fewer pods were on it (Kubernetes 1.36,
pkg/scheduler/framework/plugins/noderesources/fit.go)."""
_APART = re.compile(
    r"didn't match pod anti-affinity rules|didn't satisfy existing pods anti-affinity rules"
    r"|didn't match pod topology spread constraints(?! \(missing)|didn't have free ports for the requested pod ports"
    r"|exceed max volume count"
)
"""Its words where a node would fit without a pod that is on it (Kubernetes 1.36, pkg/scheduler/framework/plugins:
interpodaffinity, podtopologyspread, nodeports, nodevolumelimits)."""
_EXCLUSIVE = re.compile(r"ReadWriteOncePod access mode")
"""Its words where another pod has the claim, on whichever node (the same, volumerestrictions)."""
_OTHER = re.compile(f"^(?!.*(?:{_ROOM.pattern}|{_APART.pattern}|{_EXCLUSIVE.pattern}))")
_OVER_QUOTA = re.compile(
    r"exceeded quota: .*?requested: (?P<requested>\S+), used: (?P<used>\S+), limited: (?P<limit>\S+)"
)
"""Kubernetes 1.36, pkg/admission/plugin/resourcequota/controller.go."""


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment), default=None)


def _over_quota(start: Start) -> datetime | None:
    """Since when a quota is full that would suffice for the new engine in the place of an old one."""
    message, since = start.refused()
    return since if not start.needs_more and _has_place_for_one(message) else None


def _has_place_for_one(message: str) -> bool:
    """Whether a quota is only full: neither lower than what is used, nor than what one pod requests."""
    found = _OVER_QUOTA.search(message)
    try:
        requested, used, limit = (
            {name: value(amount) for name, _, amount in (entry.partition("=") for entry in listed.split(","))}
            for listed in (found.groups() if found else ("", "", ""))
        )
    except (InvalidOperation, KeyError):
        return False
    return bool(requested) and all(max(requested[name], used.get(name, 0)) <= limit.get(name, -1) for name in requested)


def _failing(start: Start) -> datetime | None:
    """Since when a pod that has never served cannot start. Its container has ended for the first time after a run."""
    failing = (
        (engine.created, pod.problem.terminated)
        for engine in start.new
        for pod in engine.pods
        if pod.problem and pod.problem.reason is not Reason.UNSCHEDULABLE and not (pod.failed or pod.has_served)
    )
    begins = (created + ((ended and ended.ran) or timedelta(0)) for created, ended in failing if created)
    return _first([*begins, None if start.attached() else start.unmounted()])


_HELD = "Its successor needs a volume that it uses"

ROOM = Obstacle("no room", lambda start: start.unschedulable(_ROOM), removed=True, node_helps=True)
APART = Obstacle("kept apart", lambda start: start.unschedulable(_APART), removed=True, node_helps=True)
EXCLUSIVE = Obstacle(
    "claim of one pod",
    lambda start: start.unschedulable(_EXCLUSIVE),
    removed=True,
    limit=timedelta(0),
    no_successor=_HELD,
)
QUOTA = Obstacle(
    "full quota", _over_quota, removed=True, no_successor="A quota of the namespace allows no successor beside it"
)
ATTACHED = Obstacle("volume in use", Start.attached, removed=True, no_successor=_HELD)
REFUSED = Obstacle(
    "pod refused",
    lambda start: None if _over_quota(start) else start.refused()[1],
    removed=False,
    no_successor="Kubernetes refuses the pod of its successor",
)
"""By another quota, a LimitRange, or an admission policy."""
UNFIT = Obstacle("no suitable node", lambda start: start.unschedulable(_OTHER), removed=False, node_helps=True)
FAILING = Obstacle("failing", _failing, removed=False)
"""Its image cannot be pulled, its volume cannot be mounted, or its container ends."""
NOT_READY = Obstacle("not ready", lambda start: _first(engine.created for engine in start.new), removed=False)
"""It pulls or loads: that it does so for too long is the progress deadline's matter."""

OBSTACLES = (EXCLUSIVE, ROOM, APART, QUOTA, ATTACHED, REFUSED, UNFIT, FAILING, NOT_READY)
"""Several may apply. Only one whose row says that this removes it ends an old engine."""


def obstacles(start: Start) -> Iterator[tuple[Obstacle, datetime]]:
    """The obstacles of an engine's start, each with since when it counts."""
    for obstacle in OBSTACLES:
        if since := obstacle.since(start):
            yield obstacle, since if obstacle is ROOM else start.ended(since)
