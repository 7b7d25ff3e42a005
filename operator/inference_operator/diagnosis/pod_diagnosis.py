"""Diagnosis of a pod that does not run: reason and message for users, and the lookups that tell more."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.explanations import EXPLANATIONS, with_cure
from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.gpu_shortfall import gpu_shortfall, shortfall_lookup
from inference_operator.diagnosis.node_autoscaler import autoscaler_answer, autoscaler_due, autoscaler_lookup
from inference_operator.diagnosis.node_requirements import node_requirements
from inference_operator.diagnosis.request import DiagnosisRequest
from inference_operator.diagnosis.scheduler_message import scheduler_sentence
from inference_operator.diagnosis.startup_timeout import probe_failure_lookup, startup_timeout
from inference_operator.engines.start_log import Diagnosis
from inference_operator.sentences import sentences
from inference_operator.views.lookups import LogText, Lookup, Unavailable
from inference_operator.views.pod import PodProblem, PodView, Terminated, one_line


@dataclass(frozen=True, slots=True)
class PodDiagnosis:
    """A pod that does not run, and why."""

    pod: PodView
    reason: Reason
    message: str
    autoscaler: str = ""
    """What a node autoscaler says about the pod; empty where none has said anything."""


def pod_diagnosis(pod: PodView | None, request: DiagnosisRequest) -> PodDiagnosis | None:
    """Why a pod does not run; None if no problem is known.

    The first rule that applies:

    - It is unschedulable: the scheduler's message, in words, with the missing GPUs and node labels, and what a
      node autoscaler says.
    - No container has run: a known error in the container runtime's message, else the kubelet's message; with what to
      do.
    - An engine terminated, and its termination message or log names a known error: that error.
    - The kubelet restarted the engine because its startup probe failed: the startup timeout.
    - Otherwise: how the container terminated, with the end of its output.
    """
    if pod is None or pod.problem is None:
        return None
    problem, subject = pod.problem, f"Pod {pod.name} does not run"
    if problem.reason is Reason.UNSCHEDULABLE:
        return _unschedulable(pod, problem, request)
    if problem.terminated is None:
        if error := _runtime_error(pod, problem.cause, request):
            return PodDiagnosis(pod, error.reason, f"{subject}: {error.cause}.")
        return PodDiagnosis(pod, problem.reason, with_cure(f"{subject}: {problem.cause}", cure_of(problem.reason)))
    if error := _engine_error(pod, problem.terminated, request):
        where = f" on node `{pod.node}`" if error.reason is Reason.GPU_HARDWARE_ERROR and pod.node else ""
        return PodDiagnosis(pod, error.reason, f"{subject}{where}: {error.cause}.")
    if slow := startup_timeout(pod, problem.terminated, request):
        return PodDiagnosis(pod, Reason.STARTUP_TIMEOUT, f"{subject}: {slow}")
    return PodDiagnosis(pod, problem.reason, f"{subject}: {problem.cause}{_last_output(problem.terminated, request)}")


_WITHOUT_CURE = frozenset(
    {
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_CONFIG_ERROR,
        Reason.VOLUME_UNAVAILABLE,
        Reason.QUOTA_EXCEEDED,
        Reason.DISK_FULL,
    }
)
"""Reasons whose messages come from Kubernetes, which names a cause but not what to do."""


def cure_of(reason: Reason) -> str:
    """What to do where Kubernetes' own message says only why a pod does not run; empty where it says enough.

    Examples:
        >>> cure_of(Reason.CONTAINER_CONFIG_ERROR), cure_of(Reason.POD_REJECTED)
        ('Create the missing object.', '')
    """
    return EXPLANATIONS[reason].cure if reason in _WITHOUT_CURE else ""


def diagnosis_lookups(diagnosis: PodDiagnosis | None, request: DiagnosisRequest) -> Sequence[Lookup]:
    """The lookups that can tell more: a terminated container's log, free GPUs, Events."""
    if diagnosis is None or diagnosis.pod.problem is None:
        return ()
    pod, ended = diagnosis.pod, diagnosis.pod.problem.terminated
    if ended is None:
        possible = (shortfall_lookup(pod, request), autoscaler_lookup(pod, request))
        return tuple(lookup for lookup in possible if lookup)
    role = request.roles.get(pod.component)
    message_suffices = role.engine.diagnose(ended.message) if role else ended.message
    if message_suffices:
        return ()
    log = ended.log if request.read_logs else None
    return tuple(lookup for lookup in (log, probe_failure_lookup(pod, ended, request)) if lookup)


def diagnosis_due(diagnosis: PodDiagnosis | None) -> datetime | None:
    """When a lookup becomes worth a request that can tell more; None if there is none."""
    return autoscaler_due(diagnosis.pod) if diagnosis else None


def _unschedulable(pod: PodView, problem: PodProblem, request: DiagnosisRequest) -> PodDiagnosis:
    """Why no node fits; what to do is left out if a node is on its way."""
    answer = autoscaler_answer(pod, request)
    comes, said = (answer.node_comes, answer.text) if answer else (False, "")
    details = (gpu_shortfall(pod, request), "" if comes else node_requirements(pod, request), said)
    cause = scheduler_sentence(problem.cause, sentences(*details), cure=not comes)
    return PodDiagnosis(pod, problem.reason, f"Pod {pod.name} does not run: {cause}", autoscaler=said)


def _engine_error(pod: PodView, ended: Terminated, request: DiagnosisRequest) -> Diagnosis | None:
    """The known error in the termination message, or in the log, of which that message is the end."""
    role = request.roles.get(pod.component)
    if role is None:
        return None
    log = request.lookups.get(ended.log)
    in_log = role.engine.diagnose(log.text) if isinstance(log, LogText) else None
    return role.engine.diagnose(ended.message) or in_log


def _runtime_error(pod: PodView, cause: str, request: DiagnosisRequest) -> Diagnosis | None:
    """A known error in the message of the container runtime, such as that of NVIDIA's hook about the driver."""
    role = request.roles.get(pod.component)
    return role.engine.diagnose(cause) if role and pod.problem and pod.problem.from_runtime else None


def _last_output(ended: Terminated, request: DiagnosisRequest) -> str:
    """The end of what the container wrote, which says most, or why it cannot be read."""
    if ended.message:
        return f": {one_line(ended.message)}"
    if not request.read_logs:
        return "; its log is not read, because the operator's setting `readLogs` is off"
    match request.lookups.get(ended.log):
        case LogText(text) if text.strip():
            return f": {one_line(text)}"
        case Unavailable(why):
            return f"; its log cannot be read: {why}"
        case _:
            return ""
