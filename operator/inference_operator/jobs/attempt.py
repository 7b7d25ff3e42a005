"""One attempt of a task, as its Job and the Job's pods show it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.pending_causes import PendingWait, creation_wait, volume_wait
from inference_operator.manifest import Manifest
from inference_operator.views.pod import PodProblem, PodView
from inference_operator.views.raw import annotations, timestamp
from inference_operator.views.untrusted_text import one_line

JOB_HASH_ANNOTATION = "inference-operator.dev/asked"
ATTEMPT_ANNOTATION = "inference-operator.dev/attempt"
"""Annotation with the number of the attempt, counted from 1."""

_NUMBER = re.compile("[0-9]{1,4}")
"""An attempt's number. A longer number is invalid."""


@dataclass(frozen=True, slots=True)
class Attempt:
    job: str
    job_hash: str
    number: int
    message: str = ""
    """Termination message of its pod; empty until the pod has terminated."""
    problem: PodProblem | None = None
    """Why its pod does not run; None if the pod runs, has terminated or does not exist."""
    finished: datetime | None = None
    """When the Job controller marked it complete or failed; None before that."""
    failure: str = ""
    """Why it failed: how its container ended, else the Job controller's message; empty if it has not failed."""
    has_output: bool = False
    """Whether its container has ended, so that there is a log."""
    created: datetime | None = None
    namespace: str = ""
    wait: PendingWait | None = None
    """Its wait for a pod, or its pod's wait for volumes; None if it waits for neither."""


def job_attempt(job: Manifest, pods: Iterable[PodView]) -> Attempt:
    """The attempt of a Job. Its pod may show the end of the attempt before the Job controller does."""
    meta, notes = job["metadata"], annotations(job)
    number = str(notes.get(ATTEMPT_ANNOTATION, ""))
    own = [pod for pod in pods if pod.name.startswith(f"{meta['name']}-")]
    end = next((c for c in (job.get("status") or {}).get("conditions") or () if _is_end(c)), None)
    failed = end is not None and end.get("type") == "Failed"
    condition_text = one_line(end.get("message")) or one_line(end.get("reason")) if end else ""
    ended = next((pod.problem for pod in own if pod.problem and _has_ended(pod, pod.problem)), None)
    return Attempt(
        job=meta["name"],
        job_hash=str(notes.get(JOB_HASH_ANNOTATION, "")),
        number=int(number) if _NUMBER.fullmatch(number) else 1,
        message=next((pod.termination_message for pod in own if pod.termination_message), ""),
        problem=next((pod.problem for pod in own if pod.problem and not _has_ended(pod, pod.problem)), None),
        finished=timestamp(end.get("lastTransitionTime")) if end else None,
        failure=((ended.cause if ended else condition_text) or "it has failed") if failed else "",
        has_output=ended is not None and ended.terminated is not None,
        created=timestamp(meta.get("creationTimestamp")),
        namespace=str(meta.get("namespace", "")),
        wait=_wait(job, own),
    )


def _wait(job: Manifest, own: Sequence[PodView]) -> PendingWait | None:
    if not own:
        return creation_wait(job)
    namespace = str(job["metadata"].get("namespace", ""))
    return next((wait for pod in own if (wait := volume_wait(pod, namespace=namespace))), None)


def _has_ended(pod: PodView, problem: PodProblem) -> bool:
    """Whether the problem is how the pod of a Job has ended: it is not started again.

    The phase follows a moment after its container, or never while another container, such as a proxy, runs.
    """
    return pod.failed or problem.reason in (Reason.CRASH_LOOP, Reason.OUT_OF_MEMORY)


def _is_end(condition: Manifest) -> bool:
    """Whether a condition marks a Job as complete or failed (Kubernetes 1.36, batch/v1 JobConditionType)."""
    return condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
