"""The states of the autoscaling loops, by InferenceDeployment and role; `autoscaling/loop.py` makes them."""

from collections.abc import Iterable

from inference_operator.autoscaling.inputs import ScalingInputs, ScalingResult
from inference_operator.autoscaling.loop import LoopState, ScrapeRound, needs_reconcile, observed, requested
from inference_operator.manifest import Key


class ScalingStore:
    """Loop states. A new process starts empty: it keeps the number of engines until it has seen a whole window."""

    def __init__(self) -> None:
        self._states: dict[Key, dict[str, LoopState]] = {}
        """By key and role. Today the operator scales one role, the first."""

    def want(self, key: Key, inputs: ScalingInputs | None) -> None:
        """Store the parameters of the next decisions; None ends them."""
        if inputs is None:
            self._states.pop(key, None)
        else:
            state = self._states.get(key, {}).get(inputs.role)
            self._states[key] = {inputs.role: requested(state, inputs)}

    def inputs(self, key: Key) -> ScalingInputs | None:
        """The parameters of decisions; None where the operator does not decide."""
        state = self._first(key)
        return state.inputs if state else None

    def result(self, key: Key) -> ScalingResult | None:
        """The latest decision; None before the first one."""
        state = self._first(key)
        return state.result if state else None

    def keys(self) -> list[Key]:
        """The keys about which the operator decides."""
        return list(self._states)

    def has_demand(self, key: Key) -> bool:
        """Whether the latest sample of a role has requests."""
        return any(state.has_demand for state in self._states.get(key, {}).values())

    def observe(self, key: Key, scraped: ScrapeRound) -> bool:
        """Store the states after a round of scrapes; returns whether a reconcile has something to do or to say."""
        is_news = False
        for role, before in self._states.get(key, {}).items():
            self._states[key][role], result = observed(before, scraped)
            is_news |= needs_reconcile(before, result)
        return is_news

    def forget_all_but(self, keys: Iterable[Key]) -> None:
        """Remove the states of all other keys."""
        staying = set(keys)
        self._states = {key: states for key, states in self._states.items() if key in staying}

    def _first(self, key: Key) -> LoopState | None:
        return next(iter(self._states.get(key, {}).values()), None)
