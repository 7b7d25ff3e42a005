"""What `scrape` has told: the last metrics of each pod, and the states of the autoscaling loops that they feed."""

from collections.abc import Iterable, Mapping, Sequence

from inference_operator.autoscaling.inputs import ScalingInputs, ScalingResult
from inference_operator.autoscaling.loop import LoopState, ScrapeRound, needs_reconcile, observed, requested
from inference_operator.manifest import Key
from inference_operator.views.pod import PodView
from inference_operator.views.samples import AdapterReport, EngineActivity, RouterSample, Samples

UNREAD_MISSES = 2
"""Scrapes in a row without an answer after which a pod counts as unread. One may fail while the pod is busy."""


class SampleStore:
    """Samples by pod uid. Decisions see no sample of a pod whose last scrape failed: a missing value is not zero."""

    def __init__(self) -> None:
        self._engines: dict[str, EngineActivity] = {}
        self._routers: dict[str, RouterSample] = {}
        self._adapters: dict[str, AdapterReport] = {}
        self.awaits_adapters: set[Key] = set()
        """Keys of which an engine is at work on its list of adapters, or has told nothing of it yet."""
        self._missing: dict[str, int] = {}
        """Scrapes in a row without an answer."""

    def engine(self, uid: str) -> EngineActivity | None:
        """The last sample of an engine, even if a later scrape failed."""
        return self._engines.get(uid)

    def see_engine(self, uid: str, sample: EngineActivity) -> bool:
        """Store a sample of an engine; returns whether it was unreadable before."""
        self._engines[uid] = sample
        return self._missing.pop(uid, 0) >= UNREAD_MISSES

    def correct(self, uid: str, sample: EngineActivity) -> None:
        """Replace the sample of an engine; whether its last scrape failed stays as it is."""
        self._engines[uid] = sample

    def see_router(self, uid: str, sample: RouterSample) -> None:
        self._routers[uid] = sample
        self._missing.pop(uid, None)

    def await_adapters(self, key: Key, awaited: bool) -> None:  # noqa: FBT001 - a value, not a mode
        (self.awaits_adapters.add if awaited else self.awaits_adapters.discard)(key)

    def see_adapters(self, uid: str, report: AdapterReport) -> bool:
        """Store the report of an engine about its adapters; returns whether it differs from the one before."""
        before = self._adapters.get(uid)
        self._adapters[uid] = report
        return report != before

    def miss(self, uid: str) -> bool:
        """Mark a pod as not scraped; returns whether it counts as unreadable from now on."""
        self._missing[uid] = self._missing.get(uid, 0) + 1
        return self._missing[uid] == UNREAD_MISSES

    def of(self, pods: Iterable[PodView]) -> Samples:
        every = [pod.uid for pod in pods]
        uids = [uid for uid in every if uid not in self._missing]
        return Samples(
            {uid: self._engines[uid] for uid in uids if uid in self._engines},
            {uid: self._routers[uid] for uid in uids if uid in self._routers},
            {uid: self._adapters[uid] for uid in every if uid in self._adapters},
            frozenset(uid for uid in every if self._missing.get(uid, 0) >= UNREAD_MISSES),
        )

    def forget_all_but(self, uids: Iterable[str]) -> None:
        staying = set(uids)
        self._engines = {uid: sample for uid, sample in self._engines.items() if uid in staying}
        self._routers = {uid: sample for uid, sample in self._routers.items() if uid in staying}
        self._adapters = {uid: report for uid, report in self._adapters.items() if uid in staying}
        self._missing = {uid: misses for uid, misses in self._missing.items() if uid in staying}


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
