"""Counts the restarts of engines by cause, and those of routers, from what pods tell at each scrape.

- The engine of a group is restarted as one: the restarts of its leader's container count, and not those of its workers.
  If the leader's pod is replaced, a restart of a worker that stays counts once in its place.
- A restart that an operator finds when it starts, or takes over, is not counted: the one before it has counted it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inference_operator.diagnosis.restart_cause import RestartCause, restart_cause
from inference_operator.manifest import Key
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import PodView


@dataclass(frozen=True, slots=True)
class _Seen:
    """An engine at the last scrape."""

    leader: str
    """The uid of its leader."""
    restarts: int
    """Those of its leader."""
    workers: Mapping[str, int]
    """Restarts of its workers, by uid, when it was ready, or when its leader was restarted."""
    awaited: Mapping[str, int] = field(default_factory=dict)
    """The same for a leader whose pod was replaced: one restart more of such a worker counts."""


class EngineRestarts:
    def __init__(self) -> None:
        self._seen: dict[Key, dict[str, _Seen]] = {}
        self._counts: dict[Key, Counter[RestartCause]] = {}

    def update(self, resources: Mapping[Key, Sequence[EngineView]]) -> None:
        self._counts = {key: self._counts.get(key, Counter()) for key in resources}
        self._seen = {key: self._look(key, engines) for key, engines in resources.items()}

    def of(self, key: Key) -> Mapping[RestartCause, int]:
        counts = self._counts.get(key, Counter())
        return {cause: counts[cause] for cause in RestartCause}

    def _look(self, key: Key, engines: Iterable[EngineView]) -> dict[str, _Seen]:
        before, now = self._seen.get(key), dict[str, _Seen]()
        for engine in engines:
            name = f"{engine.component}/{engine.leader.group}" if engine.leader.group else engine.uid
            known = before.get(name) if before is not None else _seen(engine)
            if engine.leader.index:  # a group that has lost its leader
                if known:
                    now[name] = known
                continue
            now[name], added = _compared(engine, known or _Seen(engine.uid, 0, {}))
            if added:
                self._counts[key][restart_cause(engine)] += added
        return now


class RouterRestarts:
    """The restarts of the routers of all InferenceDeployments: of any container of their pods."""

    def __init__(self) -> None:
        self._seen: dict[Key, dict[str, int]] = {}
        """Restarts of each pod at the last scrape, by uid."""
        self._counts: dict[Key, int] = {}

    def update(self, resources: Mapping[Key, Sequence[PodView]]) -> None:
        now = {key: {pod.uid: pod.restarts for pod in routers} for key, routers in resources.items()}
        self._counts = {key: self._counts.get(key, 0) + self._added(key, restarts) for key, restarts in now.items()}
        self._seen = now

    def of(self, key: Key) -> int:
        return self._counts.get(key, 0)

    def _added(self, key: Key, restarts: Mapping[str, int]) -> int:
        before = self._seen.get(key)
        if before is None:
            return 0
        return sum(max(0, count - before.get(uid, 0)) for uid, count in restarts.items())


def _compared(engine: EngineView, known: _Seen) -> tuple[_Seen, int]:
    """What is seen of an engine now, and its restarts since it was seen before."""
    now, is_same = _seen(engine), known.leader == engine.uid
    added = max(0, now.restarts - known.restarts) if is_same else now.restarts
    awaited = known.awaited if is_same else known.workers
    if any(now.workers.get(uid, 0) > count for uid, count in awaited.items()):
        return now, added + 1
    if engine.ready or added:
        return now, added
    return replace(now, workers=known.workers if is_same else {}, awaited=awaited), 0


def _seen(engine: EngineView) -> _Seen:
    return _Seen(engine.uid, _restarts(engine.leader), {pod.uid: _restarts(pod) for pod in engine.workers})


def _restarts(pod: PodView) -> int:
    return pod.restart.count if pod.restart else 0
