"""Startup progress: the step of the engine that is furthest in its start. It never goes back for the same pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from inference_operator.api.status import StartupStatus, StartupStep
from inference_operator.diagnosis.component import DiagnosisInputs
from inference_operator.diagnosis.pending_causes import is_pulling, volume_wait
from inference_operator.engines.start_log import LoadProgress, Phase
from inference_operator.views.engine import EngineView, engines_of
from inference_operator.views.lookups import LogLookup, LogText, ObjectEvents
from inference_operator.views.pod import PodView
from inference_operator.views.pod_startup import StartupStage

_Step: TypeAlias = StartupStage | Phase

PHRASES: Mapping[_Step, str] = {
    StartupStage.QUEUE: "waits for admission by its queue",
    StartupStage.NODE: "waits for a node",
    StartupStage.SANDBOX: "waits for its network, its volumes or its images",
    StartupStage.IMAGES: "pulls its images",
    StartupStage.PROCESS: "starts its engine",
    Phase.SETTING_UP: "sets up its engine",
    Phase.CONNECTING: "connects its GPUs with each other",
    Phase.DOWNLOADING: "downloads the model",
    Phase.LOADING: "loads the weights",
    Phase.COMPILING: "compiles the model",
    Phase.WARMING_UP: "warms up",
    Phase.CAPTURING: "captures CUDA graphs",
}
"""The words that follow the name of a pod in each step, in the order of a start."""

_BY_NAME: Mapping[StartupStep, _Step] = dict(zip(StartupStep, PHRASES, strict=True))
_NAMES: Mapping[_Step, StartupStep] = {step: name for name, step in _BY_NAME.items()}
_ORDER: Sequence[_Step] = tuple(PHRASES)
_BEFORE_PROCESS = frozenset({StartupStage.QUEUE, StartupStage.NODE, StartupStage.SANDBOX, StartupStage.IMAGES})

REPORT_AFTER = timedelta(seconds=10)
"""Age of a pod from which its progress is reported. A start that is over by then costs no write and no lookup."""


@dataclass(frozen=True, slots=True)
class StartupProgress:
    status: StartupStatus | None = None
    """Pod and step; None while there is nothing to report."""
    lookup: LogLookup | None = None
    """The log that tells more; None where it cannot be read."""
    due: datetime | None = None
    """Time of the next report, if no event comes before."""


def sentence(startup: StartupStatus) -> str:
    """The step of a pod, for users.

    Examples:
        >>> sentence(StartupStatus(pod="qwen-engine-a", step=StartupStep.LOADING_WEIGHTS, percent=50, minutes_left=3))
        'Pod qwen-engine-a loads the weights (50 %, 3 min left).'
    """
    left = f", {startup.minutes_left} min left" if startup.minutes_left else ""
    percent = f" ({startup.percent} %{left})" if startup.percent else ""
    return f"Pod {startup.pod} {PHRASES[_BY_NAME[startup.step]]}{percent}."


def startup_progress(
    pods: Sequence[PodView], reported: StartupStatus | None, inputs: DiagnosisInputs
) -> StartupProgress:
    """The progress of the engine that is furthest in its start.

    - The step that status reported is a lower bound for its pod, since a long log no longer shows its first lines.
    - Another pod in the same step changes nothing.
    - An engine of several pods is as far as the pod that holds it back.
    """
    starting = [(pod, pod.created + REPORT_AFTER) for pod in pods if pod.start and pod.created]
    steps = {pod.name: _step(pod, reported, inputs) for pod, report_at in starting if report_at <= inputs.now}
    known = [slowest for engine in engines_of(pods) if (slowest := _slowest(engine, steps))]
    if not known:
        return StartupProgress(due=min((at for _, at in starting if at > inputs.now), default=None))
    pod, step = max(
        known, key=lambda pair: (_ORDER.index(pair[1]), _reported_step(pair[0], reported) is not None, pair[0].name)
    )
    log = pod.start.log if pod.start and inputs.read_logs else None
    load = _load_progress(pod, reported, inputs) if step is Phase.LOADING else None
    percent, left = (load.percent, load.minutes_left) if load else (None, None)
    return StartupProgress(StartupStatus(pod=pod.name, step=_NAMES[step], percent=percent, minutes_left=left), log)


def _load_progress(pod: PodView, reported: StartupStatus | None, inputs: DiagnosisInputs) -> LoadProgress | None:
    """How much of the weights is loaded. It never falls, and it changes with the tenths of percent alone."""
    log, engine = inputs.lookups.get(pod.start.log) if pod.start and pod.start.log else None, inputs.engine_of(pod)
    progress = engine.load_progress(log.text) if engine and isinstance(log, LogText) else None
    before = None
    if reported and reported.pod == pod.name and reported.percent:
        before = LoadProgress(reported.percent, reported.minutes_left)
    return max(filter(None, (before, progress)), key=lambda load: load.percent, default=None)


def _slowest(engine: EngineView, steps: Mapping[str, _Step | None]) -> tuple[PodView, _Step] | None:
    """The pod that holds an engine back, and its step; None if that is not known.

    A worker does so until its process runs. After that the leader's log shows how far the engine is.
    """
    pairs = [(pod, step) for pod in engine.pods if (step := steps.get(pod.name)) is not None]
    holding = [(pod, step) for pod, step in pairs if pod is engine.leader or step in _BEFORE_PROCESS]
    return min(holding, key=lambda pair: _ORDER.index(pair[1]), default=None)


def _step(pod: PodView, reported: StartupStatus | None, inputs: DiagnosisInputs) -> _Step | None:
    """The step of a pod; None for a pod that has served before, and so does not start."""
    start, before = pod.start, _reported_step(pod, reported)
    if start is None or start.answered:
        return before
    log, engine = inputs.lookups.get(start.log) if start.log else None, inputs.engine_of(pod)
    phase = engine.phase(log.text) if engine and isinstance(log, LogText) else None
    wait = volume_wait(pod, namespace=inputs.namespace)
    events = inputs.lookups.get(wait.lookup) if wait else None
    pulls = StartupStage.IMAGES if isinstance(events, ObjectEvents) and is_pulling(events) else None
    return max((step for step in (start.stage, pulls, phase, before) if step), key=_ORDER.index)


def _reported_step(pod: PodView, reported: StartupStatus | None) -> _Step | None:
    return _BY_NAME[reported.step] if reported and reported.pod == pod.name else None
