"""Where the start of an engine is: told of the pod that is furthest, and only ever forward."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from inference_operator.api.status import Status
from inference_operator.engines.chosen import chosen_engine
from inference_operator.engines.engine import Phase
from inference_operator.observed.look import Log, LogTail, Seen, Told
from inference_operator.observed.pod import PodView
from inference_operator.observed.start import Stage
from inference_operator.observed.waits import is_pulling, volume_wait

WORDS: Mapping[Stage | Phase, str] = {
    Stage.QUEUE: "waits to be admitted by its queue",
    Stage.NODE: "waits for a node",
    Stage.SANDBOX: "waits for its network, its volumes or its images",
    Stage.IMAGES: "waits for its images, which are pulled",
    Stage.PROCESS: "starts its engine",
    Phase.SETTING_UP: "sets up its engine",
    Phase.DOWNLOADING: "downloads the model",
    Phase.LOADING: "loads the weights",
    Phase.COMPILING: "compiles the model",
    Phase.WARMING_UP: "warms up",
    Phase.CAPTURING: "captures CUDA graphs",
}
"""What a pod does, after its name; in the order of a start."""

STEPS: Sequence[Stage | Phase] = tuple(WORDS)

TELL_AFTER = timedelta(seconds=10)
"""How old a pod is when it is first told where it is: a start that is over by then costs no write and no look."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the furthest engine is that starts."""

    told: str = ""
    """In a sentence; empty while there is nothing to tell."""
    look: LogTail | None = None
    """Its log, which tells more; None where that is not to be read."""
    due: datetime | None = None
    """When there will be something to tell, if nothing happens before."""


def sentence(pod: PodView, step: Stage | Phase) -> str:
    """What is told of a pod.

    Examples:
        >>> from inference_operator.observed.pod import pod_view
        >>> sentence(pod_view({"metadata": {"name": "qwen-engine-a"}}, component="engine"), Phase.LOADING)
        'Pod qwen-engine-a loads the weights.'
    """
    return f"Pod {pod.name} {WORDS[step]}."


def progress(
    pods: Sequence[PodView], before: Status, seen: Seen, *, namespace: str, read_logs: bool, now: datetime
) -> Progress:
    """How far the start is.

    What was told before is read from the status. A log that has grown too long to show an earlier word, or another pod
    at the same step, changes nothing.

    Args:
        pods: the engines that may come to serve.
        before: what was told last.
        seen: what was found of logs and Events.
        namespace: where the pods are.
        read_logs: whether logs may be read.
        now: the time.
    """
    starting = [(pod, pod.created + TELL_AFTER) for pod in pods if pod.start and pod.created]
    steps = {pod.name: _step(pod, before, seen, namespace) for pod, ripe in starting if ripe <= now}
    told = [(pod, step) for pod, _ in starting if (step := steps.get(pod.name)) is not None]
    if not told:
        return Progress(due=min((ripe for _, ripe in starting if ripe > now), default=None))
    pod, step = max(told, key=lambda one: (STEPS.index(one[1]), _told(one[0], before) is not None, one[0].name))
    return Progress(sentence(pod, step), pod.start.log if pod.start and read_logs else None)


def _step(pod: PodView, before: Status, seen: Seen, namespace: str) -> Stage | Phase | None:
    """How far a pod is; None for one that has served, and therefore does not start."""
    start, told = pod.start, _told(pod, before)
    if start is None or start.answered:
        return told
    found = seen.get(start.log) if start.log else None
    phase = chosen_engine().phase(found.text) if isinstance(found, Log) else None
    wait = volume_wait(pod, namespace=namespace)
    events = seen.get(wait.look) if wait else None
    pulls = Stage.IMAGES if isinstance(events, Told) and is_pulling(events) else None
    return max((step for step in (start.stage, pulls, phase, told) if step), key=STEPS.index)


def _told(pod: PodView, before: Status) -> Stage | Phase | None:
    """What was told of a pod."""
    messages = [condition.message for condition in before.conditions]
    return next((step for step in reversed(STEPS) if any(sentence(pod, step) in message for message in messages)), None)
