"""An engine that the kubelet restarts because its startup probe failed. Only Events show that."""

from inference_operator.api.duration import in_words
from inference_operator.diagnosis.inputs import DiagnosisInputs
from inference_operator.diagnosis.startup_progress import PHRASES
from inference_operator.sentences import sentences
from inference_operator.views.lookups import EventsLookup, LogText, ObjectEvents
from inference_operator.views.pod import PodView, Terminated

_PROBE_FAILED = "Container {container} failed startup probe"
"""How the kubelet's message begins (Kubernetes 1.36, pkg/kubelet/kuberuntime/kuberuntime_manager.go)."""

_MOST_OF_THE_TIME = 0.9
"""Part of the startup time after which the probe may have ended a container: the kubelet probes at once the first
time."""


def probe_failure_lookup(pod: PodView, ended: Terminated, inputs: DiagnosisInputs) -> EventsLookup | None:
    """The lookup that shows whether the probe failed; None where the container had time left or is no engine."""
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
