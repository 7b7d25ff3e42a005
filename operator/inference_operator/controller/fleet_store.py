"""How far changes of the owner's settings are at all InferenceDeployments, for the brake and for the metrics."""

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from inference_operator.api.rollouts import RolloutSettings
from inference_operator.fleet.rollout_slots import Fleet, FleetState, may_begin, stops
from inference_operator.manifest import Key, Ref

_IN_TURN = frozenset({FleetState.ROLLING, FleetState.FAILED})
SHOWN = (FleetState.WAITING, FleetState.ROLLING, FleetState.FAILED, FleetState.DONE)
"""The states of the metric, in its order."""


class FleetStore:
    """The states by key, as the last reconcile of each key decided.

    A decision counts at once: reconciles run side by side, and each must know what the others have begun. After a start
    of the operator the turns that workloads have recorded count until their keys are decided.

    Args:
        rollouts: the owner's setting.
        known: the keys of all InferenceDeployments.
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
        """The number of InferenceDeployments in each state that the metric shows."""
        counted = Counter(self._states.values())
        return {state.value: counted[state] for state in SHOWN}
