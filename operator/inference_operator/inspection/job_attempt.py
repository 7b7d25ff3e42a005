"""What Jobs and their pods tell about attempts at something that ends."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from inference_operator.diagnosis.pending_causes import PendingWait, creation_wait, volume_wait
from inference_operator.manifest import Manifest
from inference_operator.views.pod import PodProblem, PodView, one_line
from inference_operator.views.raw import annotations, timestamp

JOB_HASH_ANNOTATION = "inference-operator.dev/asked"
"""Fingerprint of all that the attempt does."""
ATTEMPT_ANNOTATION = "inference-operator.dev/attempt"
"""Which attempt at it this is, counted from 1."""

MOST_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Attempt:
    """One Job."""

    job: str
    asked: str
    number: int
    words: str = ""
    """The last words of its pod, once that has ended."""
    problem: PodProblem | None = None
    """Why its pod does not run; None where it runs, has ended or is not there."""
    finished: datetime | None = None
    """When its controller said that it is over; None while it goes on."""
    failure: str = ""
    """Why it failed, in its controller's words; empty if it has not."""
    wait: PendingWait | None = None
    """That it waits for its pod, or its pod for volumes; None if neither."""


def attempt(job: Manifest, pods: Iterable[PodView]) -> Attempt:
    """Read a Job and its pods, of which the kubelet may have ended one before the Job's controller knows."""
    meta, noted = job["metadata"], annotations(job)
    number = str(noted.get(ATTEMPT_ANNOTATION, ""))
    own = [pod for pod in pods if pod.name.startswith(f"{meta['name']}-")]
    over = next((c for c in (job.get("status") or {}).get("conditions") or () if _is_end(c)), None)
    failed = over is not None and over.get("type") == "Failed"
    said = one_line(over.get("message")) or one_line(over.get("reason")) if over else ""
    return Attempt(
        job=meta["name"],
        asked=str(noted.get(JOB_HASH_ANNOTATION, "")),
        number=int(number) if number.isdigit() and len(number) <= MOST_DIGITS else 1,
        words=next((pod.last_words for pod in own if pod.last_words), ""),
        problem=next((pod.problem for pod in own if pod.problem and not pod.failed), None),
        finished=timestamp(over.get("lastTransitionTime")) if over else None,
        failure=(said or "it has failed") if failed else "",
        wait=_wait(job, own),
    )


def _wait(job: Manifest, own: Sequence[PodView]) -> PendingWait | None:
    if not own:
        return creation_wait(job)
    namespace = str(job["metadata"].get("namespace", ""))
    return next((wait for pod in own if (wait := volume_wait(pod, namespace=namespace))), None)


def _is_end(condition: Manifest) -> bool:
    """Whether a condition says that a Job is over (Kubernetes 1.36, batch/v1 JobConditionType)."""
    return condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
