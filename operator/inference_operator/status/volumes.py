"""A volume that cannot be had: the pod's own status says nothing of it, only Events do."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.explanations import with_cure
from inference_operator.observed.look import EventsOf, Seen, Told
from inference_operator.observed.pod import PodView
from inference_operator.observed.waits import volume_wait, why
from inference_operator.status.trouble import Trouble


@dataclass(frozen=True, slots=True)
class Volumes:
    """What is known of the volumes of engines that start."""

    trouble: Trouble | None = None
    look: EventsOf | None = None
    """What has to be looked up to know more."""
    due: datetime | None = None
    """When it will have to be, if nothing happens before."""


def volumes(pods: Iterable[PodView], *, namespace: str, seen: Seen, now: datetime) -> Volumes:
    """Why a pod waits for its volumes, once it has waited for long.

    Args:
        pods: the engines that may come to serve.
        namespace: where they are.
        seen: what was found of Events.
        now: the time.
    """
    waiting = [(wait, pod) for pod in pods if (wait := volume_wait(pod, namespace=namespace))]
    if not waiting:
        return Volumes()
    wait, pod = min(waiting, key=lambda one: (one[0].due, one[1].name))
    if wait.due > now:
        return Volumes(due=wait.due)
    found = seen.get(wait.look)
    problem = why(found) if isinstance(found, Told) else None
    if problem is None:
        return Volumes(look=wait.look)
    told = with_cure(f"Pod {pod.name} does not run: {problem.cause}", problem.cure)
    return Volumes(Trouble(pod, problem.reason, told), wait.look)
