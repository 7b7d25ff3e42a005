"""What is observed of all resources together: one store, of which each decision may read what concerns it."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from inference_operator.api.resource import AnyResource
from inference_operator.api.rollouts import RolloutSettings
from inference_operator.controller.cached_object import CachedObject
from inference_operator.controller.resource_kind import AnyResourceKind
from inference_operator.fleet.rollout_slots import Fleet, FleetState, may_begin, stops
from inference_operator.manifest import SERVICE, STATEFUL_SET, Key, Kind, Ref
from inference_operator.objects.names import service_name
from inference_operator.pipeline.inputs import Shared
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import PodView
from inference_operator.workload.eviction.half_placed import HalfPlaced, half_placed, is_half_placed


class SharedStore:
    """Reads the objects of the cache; only how far changes of the owner's settings are is kept here."""

    def __init__(
        self,
        rollouts: RolloutSettings,
        kinds: Mapping[Kind, AnyResourceKind],
        objects: Mapping[Ref, CachedObject],
        resources: Mapping[Key, CachedObject],
    ) -> None:
        self._kinds = kinds
        self._objects = objects
        self._resources = resources
        self._parsed: dict[Key, tuple[int, AnyResource]] = {}
        """Resources that others follow, with the version that was parsed."""
        self.fleet = FleetStore(rollouts, resources.keys())

    def of(self, key: Key, pods: Sequence[PodView], now: datetime) -> Shared:
        """What a decision about a resource with these pods may read."""
        followed = tuple(self._followed(key))
        mains = [Ref(SERVICE, other.key.namespace, service_name(other.key.name)) for other in followed]
        return Shared(
            fleet=self.fleet.without(key, now),
            half_placed=self._half_placed() if any(map(is_half_placed, engines_of(pods))) else (),
            followed=followed,
            followed_services={ref: cached.manifest for ref in mains if (cached := self._objects.get(ref))},
        )

    def forget(self, key: Key) -> None:
        self._parsed.pop(key, None)
        self.fleet.forget(key)

    def followers(self, key: Key) -> frozenset[Key]:
        kinds = {name for name, kind in self._kinds.items() if key.kind in kind.follows}
        return frozenset(
            other for other in (self._resources if kinds else ()) if other.kind in kinds and _together(other, key)
        )

    def _followed(self, key: Key) -> Iterator[AnyResource]:
        follows = self._kinds[key.kind].follows
        for other, cached in self._resources.items() if follows else ():
            if other.kind in follows and _together(other, key):
                known = self._parsed.get(other)
                if known is None or known[0] != cached.version:
                    known = cached.version, self._kinds[other.kind].api.parse(cached.manifest)
                    self._parsed[other] = known
                yield known[1]

    def _half_placed(self) -> Sequence[HalfPlaced]:
        """The half-placed groups of all InferenceDeployments. Only their StatefulSets are decompressed."""
        pods: dict[str, list[PodView]] = defaultdict(list)
        for ref, cached in self._objects.items():
            if cached.pod and cached.pod.group:
                pods[ref.namespace].append(cached.pod)
        found = (
            half_placed(engine, group.manifest)
            for namespace, members in pods.items()
            for engine in filter(is_half_placed, engines_of(members))
            if (group := self._objects.get(Ref(STATEFUL_SET, namespace, engine.leader.group)))
        )
        return [group for group in found if group is not None]


def _together(other: Key, key: Key) -> bool:
    return other.namespace == key.namespace and other != key


_IN_TURN = frozenset({FleetState.ROLLING, FleetState.FAILED})
SHOWN = (FleetState.WAITING, FleetState.ROLLING, FleetState.FAILED, FleetState.DONE)
"""The states of the metric, in its order."""


class FleetStore:
    """The states by key, as the last reconcile of each key decided.

    A decision counts at once: reconciles run side by side, and each must know what the others have begun. After a start
    of the operator the turns that workloads have recorded count until their keys are decided.
    """

    def __init__(self, rollouts: RolloutSettings, known: Collection[Key]) -> None:
        self._rollouts = rollouts
        self._known = known
        self._turns: dict[Ref, Key] = {}
        self._states: dict[Key, FleetState] = {}
        self._waiting: set[Key] = set()
        self._in_turn: set[Key] = set()
        self._failed: set[Key] = set()
        self._canary_window: datetime | None = None
        """When the window closes that was open when the canary was last decided."""

    def see(self, ref: Ref, key: Key | None) -> None:
        """Store whether a workload has recorded a turn: the key of its InferenceDeployment, or None."""
        if key is None:
            self._turns.pop(ref, None)
        else:
            self._turns[ref] = key

    def note(self, key: Key, state: FleetState, now: datetime) -> None:
        self._states[key] = state
        if key == self._rollouts.canary_key:
            self._canary_window = self._window(now)
        for keys, counted in (
            (self._waiting, state is FleetState.WAITING),
            (self._in_turn, state in _IN_TURN),
            (self._failed, state is FleetState.FAILED),
        ):
            (keys.add if counted else keys.discard)(key)

    def fail(self, key: Key, now: datetime) -> None:
        """Store that a key could not be decided: if its turn has begun, it counts as one that has failed."""
        if key in self._in_turn or key in self._turns.values():
            self.note(key, FleetState.FAILED, now)
        else:
            self.forget(key)

    def forget(self, key: Key) -> None:
        """Remove a key that is gone; one that is being deleted no longer counts."""
        if key in self._known:
            self._states[key] = FleetState.UNDECIDED
        else:
            self._states.pop(key, None)
        for keys in (self._waiting, self._in_turn, self._failed):
            keys.discard(key)

    def without(self, key: Key | None, now: datetime) -> Fleet:
        """All InferenceDeployments but one, as its decision needs them.

        A canary counts as done if it was decided in the window that is open now: when one opens, all are due at once.
        One that has failed is left behind: it takes no place of others, and goes on beside them once it is healthy.
        """
        unseen = {turn for turn in self._turns.values() if turn not in self._states and turn in self._known} - {key}
        canary = self._rollouts.canary_key
        return Fleet(
            rolling=len(self._in_turn - self._failed - {key}) + len(unseen),
            is_stopped=bool(unseen) or stops(self._failed - {key}, key, self._rollouts),
            canary_is_done=canary is None
            or (self._states.get(canary) is FleetState.DONE and self._canary_window == self._window(now)),
        )

    def _window(self, now: datetime) -> datetime | None:
        """When the owner's window closes that is open now; None if none is."""
        return self._rollouts.renewal.closes_at(now) if self._rollouts.renewal else None

    def next_keys(self, now: datetime) -> Sequence[Key]:
        """The keys that wait and may begin now; the canary first."""
        if not self._waiting:
            return ()
        fleet, canary = self.without(None, now), self._rollouts.canary_key
        if canary in self._waiting and may_begin(fleet, canary, self._rollouts):
            return (canary,)
        free = max(0, self._rollouts.max_concurrent - fleet.rolling)
        waiting = (key for key in self._waiting if not stops(self._failed, key, self._rollouts))
        return [key for key in heapq.nsmallest(free, waiting, key=str) if may_begin(fleet, key, self._rollouts)]

    def counts(self) -> Mapping[str, int]:
        counted = Counter(self._states.values())
        return {state.value: counted[state] for state in SHOWN}
