"""The states of the autoscaling loops, by InferenceDeployment and role; `autoscaling/loop.py` makes them."""

from collections.abc import Iterable, Mapping, Sequence

from inference_operator.autoscaling.inputs import ScalingInputs, ScalingResult
from inference_operator.autoscaling.loop import LoopState, ScrapeRound, needs_reconcile, observed, requested
from inference_operator.manifest import Key


class ScalingStore:
    """Loop states. A new process starts empty: it keeps the number of engines until it has seen a whole window."""

    def __init__(self) -> None:
        self._states: dict[Key, dict[str, LoopState]] = {}

    def want(self, key: Key, inputs: Sequence[ScalingInputs]) -> None:
        """Store the parameters of the next decisions. Those about a role that has none end."""
        before = self._states.pop(key, {})
        if inputs:
            self._states[key] = {role.role: requested(before.get(role.role), role) for role in inputs}

    def inputs(self, key: Key) -> Sequence[ScalingInputs]:
        return [state.inputs for state in self._states.get(key, {}).values()]

    def results(self, key: Key) -> Mapping[str, ScalingResult]:
        return {role: state.result for role, state in self._states.get(key, {}).items() if state.result}

    def result(self, key: Key) -> ScalingResult | None:
        """The latest decision about the role that `/scale` is about; None before the first one."""
        states = self._states.get(key, {}).values()
        return next((state.result for state in states if state.inputs.has_scale), None)

    def keys(self) -> list[Key]:
        return list(self._states)

    def has_demand(self, key: Key) -> bool:
        return any(state.has_demand for state in self._states.get(key, {}).values())

    def observe(self, key: Key, scraped: ScrapeRound) -> bool:
        """Store the states after a round of scrapes; returns whether a reconcile has something to do or to say."""
        is_news = False
        for role, before in self._states.get(key, {}).items():
            self._states[key][role], result = observed(before, scraped)
            is_news |= needs_reconcile(before, result)
        return is_news

    def forget_all_but(self, keys: Iterable[Key]) -> None:
        staying = set(keys)
        self._states = {key: states for key, states in self._states.items() if key in staying}
