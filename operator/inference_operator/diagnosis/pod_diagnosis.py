"""Diagnosis of a pod that does not run: reason and message for users, and the lookups that tell more.

The cause of a container's end, from its output: status, Events and `infd logs` have the same words.

Rules, the first that applies:

1. A known error, in the termination message or in the log.
2. Any other error, of the innermost process (`engines/root_error.py`). The log has more of it than the termination
   message, which is its end and often only what the outermost process says.
3. Such an error is the engine's refusal of its configuration if all of these apply: the engine has never served in
   this pod; the last frame of the traceback is in the engine's own package; and the statement there raises the error.
   So what a library, the driver or a model's own code raises, and a mistake such as a missing key, is no refusal.
   Errors about the surroundings of an engine (files, connections, memory, time) are none either: they may pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference_operator.api.duration import in_words
from inference_operator.api.explanations import EXPLANATIONS, with_cure
from inference_operator.api.reasons import Reason
from inference_operator.chain import Chain
from inference_operator.diagnosis import unschedulable
from inference_operator.diagnosis.component import DiagnosisInputs, ended_first
from inference_operator.diagnosis.node_autoscaler import autoscaler_answer, autoscaler_lookup
from inference_operator.diagnosis.registry_errors import problem_cure
from inference_operator.diagnosis.startup_progress import PHRASES
from inference_operator.engines.base import Engine
from inference_operator.engines.root_error import root_error
from inference_operator.engines.start_log import Diagnosis
from inference_operator.sentences import sentences
from inference_operator.views.lookups import EventsLookup, LogText, Lookup, ObjectEvents, Unavailable
from inference_operator.views.pod import PodProblem, PodView, Terminated
from inference_operator.views.untrusted_text import one_line


@dataclass(frozen=True, slots=True)
class PodDiagnosis:
    pod: PodView
    reason: Reason
    message: str
    autoscaler: str = ""
    """The decision of a node autoscaler about the pod, in sentences; empty if it has made none."""


def pod_diagnosis(pod: PodView | None, inputs: DiagnosisInputs) -> PodDiagnosis | None:
    return _diagnosis(_Case(pod, pod.problem, inputs)) if pod and pod.problem else None


@dataclass(frozen=True, slots=True)
class _Case:
    pod: PodView
    problem: PodProblem
    inputs: DiagnosisInputs

    @property
    def engine(self) -> Engine | None:
        return self.inputs.engine_of(self.pod)

    def diagnosis(self, reason: Reason, cause: str, *, where: str = "") -> PodDiagnosis:
        """The diagnosis with this cause, which ends with a full stop if it is one of our sentences."""
        return PodDiagnosis(self.pod, reason, f"Pod {self.pod.name} does not run{where}: {cause}")


def _unschedulable(case: _Case) -> PodDiagnosis | None:
    """No node fits: the scheduler's message, the missing GPUs and labels, and the node autoscaler's decision.

    The cure is left out if a node is on its way.
    """
    if case.problem.reason is not Reason.UNSCHEDULABLE:
        return None
    answer = autoscaler_answer(case.pod, case.inputs)
    comes, decision = (answer.node_comes, answer.text) if answer else (False, "")
    labels = "" if comes else unschedulable.node_requirements(case.pod, case.inputs)
    details = sentences(unschedulable.gpu_shortfall(case.pod, case.inputs), labels, decision)
    cause = unschedulable.scheduler_sentence(case.problem.cause, details, cure=not comes)
    return replace(case.diagnosis(Reason.UNSCHEDULABLE, cause), autoscaler=decision)


def _runtime_error(case: _Case) -> PodDiagnosis | None:
    """The container runtime reports a known error, such as that of NVIDIA's hook about the driver."""
    known = case.problem.terminated is None and case.problem.from_runtime
    error = case.engine.diagnose(case.problem.cause) if case.engine and known else None
    return case.diagnosis(error.reason, f"{error.cause}.") if error else None


def _not_started(case: _Case) -> PodDiagnosis | None:
    if case.problem.terminated:
        return None
    where = _on_node(case.pod) if case.pod.rejected else ""
    message = with_cure(case.problem.cause, problem_cure(case.problem) or cure_of(case.problem.reason))
    return case.diagnosis(case.problem.reason, message, where=where)


def _on_node(pod: PodView) -> str:
    return f" on node `{pod.node}`" if pod.node else ""


def _ended_after_another(case: _Case) -> PodDiagnosis | None:
    """Another member of the group ended first, and nothing is wrong with that one now.

    The log of this one shows only what followed.
    """
    ended, first = case.problem.terminated, ended_first(case.pod)
    if ended is None or first is None:
        return None
    cure = f"`kubectl describe pod -n {ended.log.namespace} {first}` shows what happened to that pod."
    return case.diagnosis(case.problem.reason, with_cure(one_line(ended.message), cure))


def _engine_error(case: _Case) -> PodDiagnosis | None:
    ended, engine = case.problem.terminated, case.engine
    if ended is None or engine is None:
        return None
    log = case.inputs.lookups.get(ended.log)
    error = known_end(engine, ended.message, log.text if isinstance(log, LogText) else "")
    if error is None:
        return None
    where = _on_node(case.pod) if error.reason is Reason.GPU_HARDWARE_ERROR else ""
    return case.diagnosis(error.reason, f"{error.cause}.", where=where)


def _startup_timeout(case: _Case) -> PodDiagnosis | None:
    ended = case.problem.terminated
    cause = startup_timeout(case.pod, ended, case.inputs) if ended else ""
    return case.diagnosis(Reason.STARTUP_TIMEOUT, cause) if cause else None


def _ended(case: _Case) -> PodDiagnosis:
    ended = case.problem.terminated
    if ended is None:
        return case.diagnosis(case.problem.reason, case.problem.cause)
    output = case.inputs.lookups.get(ended.log)
    text = output.text if isinstance(output, LogText) and output.text.strip() else ended.message
    end = unknown_end(case.engine, text, has_served=case.pod.has_served)
    is_pending = output is None or (isinstance(output, LogText) and not output.whole)
    if case.engine and case.inputs.read_logs and is_pending:
        return case.diagnosis(case.problem.reason, with_cure(_end_of(case, end), LOG_IS_READ))
    log = ended.log
    read = f"`kubectl logs -n {log.namespace} {log.pod} -c {log.container} --previous` prints all of its output."
    refused = end is not None and end.reason is Reason.CONFIGURATION_REFUSED and log.container == case.pod.component
    if end and refused:
        cure = sentences(EXPLANATIONS[end.reason].cure, read)
        return case.diagnosis(end.reason, with_cure(f"the engine refuses its configuration: {end.cause}", cure))
    own = cure_of(case.problem.reason)
    cure = sentences(own if case.engine else own.replace("spec.engine.", "spec.router."), read)
    return case.diagnosis(case.problem.reason, with_cure(f"{_end_of(case, end)}{_unread(ended, case.inputs)}", cure))


LOG_IS_READ = "Its log is being read."
"""The last sentence about a container until its log is known, which may have another cause."""


_diagnosis: Chain[_Case, PodDiagnosis] = Chain(
    (_unschedulable, _runtime_error, _not_started, _ended_after_another, _engine_error, _startup_timeout),
    otherwise=_ended,
)


_WITHOUT_CURE = frozenset(
    {
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_CONFIG_ERROR,
        Reason.VOLUME_UNAVAILABLE,
        Reason.QUOTA_EXCEEDED,
        Reason.DISK_FULL,
        Reason.OUT_OF_MEMORY,
    }
)
"""Reasons whose messages come from Kubernetes, which names a cause but not what to do."""


def cure_of(reason: Reason) -> str:
    """The cure where Kubernetes' own message names only the cause; empty where the message suffices.

    Examples:
        >>> cure_of(Reason.CONTAINER_CONFIG_ERROR), cure_of(Reason.POD_REJECTED)
        ('Create the missing object.', '')
    """
    return EXPLANATIONS[reason].cure if reason in _WITHOUT_CURE else ""


def diagnosis_lookups(diagnosis: PodDiagnosis | None, inputs: DiagnosisInputs) -> Sequence[Lookup]:
    if diagnosis is None or diagnosis.pod.problem is None:
        return ()
    pod, ended = diagnosis.pod, diagnosis.pod.problem.terminated
    if ended_first(pod):
        return ()
    if ended is None:
        possible = (unschedulable.shortfall_lookup(pod, inputs), autoscaler_lookup(pod, inputs))
        return tuple(lookup for lookup in possible if lookup)
    engine = inputs.engine_of(pod)
    message_suffices = engine.diagnose(ended.message) if engine else ended.message
    if message_suffices:
        return ()
    log = ended.log if inputs.read_logs else None
    return tuple(lookup for lookup in (log, probe_failure_lookup(pod, ended, inputs)) if lookup)


def _end_of(case: _Case, end: Diagnosis | None) -> str:
    return f"{case.problem.cause}: {end.cause}" if end else case.problem.cause


def _unread(ended: Terminated, inputs: DiagnosisInputs) -> str:
    """Why a container without a termination message has no cause; empty if its log was read."""
    if ended.message:
        return ""
    if not inputs.read_logs:
        return "; its log is not read, because the operator's setting `readLogs` is off"
    result = inputs.lookups.get(ended.log)
    return f"; its log cannot be read: {result.why}" if isinstance(result, Unavailable) else ""


_PROBE_FAILED = "Container {container} failed startup probe"
"""How the kubelet's message begins (Kubernetes 1.36, pkg/kubelet/kuberuntime/kuberuntime_manager.go)."""

_MOST_OF_THE_TIME = 0.9
"""Part of the startup time after which the probe may have ended a container: the kubelet probes at once the first
time."""


def probe_failure_lookup(pod: PodView, ended: Terminated, inputs: DiagnosisInputs) -> EventsLookup | None:
    role = inputs.roles.get(pod.component)
    if role is None or ended.log.container != pod.component or ended.ran is None:
        return None
    if ended.ran < _MOST_OF_THE_TIME * role.workload.startup:
        return None
    return EventsLookup(ended.log.namespace, pod.name, pod.uid)


def startup_timeout(pod: PodView, ended: Terminated, inputs: DiagnosisInputs) -> str:
    """Sentences about a start that took too long, with its last phase and the cure; empty if another cause ended it."""
    lookup, role = probe_failure_lookup(pod, ended, inputs), inputs.roles.get(pod.component)
    engine = inputs.engine_of(pod)
    events = inputs.lookups.get(lookup) if lookup else None
    beginning = _PROBE_FAILED.format(container=pod.component)
    if role is None or engine is None or not isinstance(events, ObjectEvents):
        return ""
    if not any(event.message.startswith(beginning) for event in events.events):
        return ""
    log = inputs.lookups.get(ended.log)
    phase = engine.phase(log.text) if isinstance(log, LogText) else None
    where = f"; the last phase in its log: it {PHRASES[phase]}" if phase else ""
    hint = engine.startup_hints.get(phase, "") if phase else ""
    limit = in_words(role.workload.startup)
    return sentences(
        f"container `{pod.component}` did not answer within {limit}, so the kubelet restarted it{where}.",
        "Raise `spec.startupTimeout`, or serve the model from a claim or an image.",
        hint,
    )


def known_end(engine: Engine, message: str, log: str) -> Diagnosis | None:
    return engine.diagnose(message) or engine.diagnose(log)


def unknown_end(engine: Engine | None, output: str, *, has_served: bool) -> Diagnosis | None:
    """The cause of a container's end, by rules 2 and 3 at the top of this module; None without any output.

    The output is the log, or the termination message where there is no log.
    """
    error = root_error(output)
    if error is None:
        return None
    own = engine is not None and any(path in error.file for path in engine.code_paths)
    refused = own and error.is_decision and not has_served
    return Diagnosis(Reason.CONFIGURATION_REFUSED if refused else Reason.CRASH_LOOP, error.text)
