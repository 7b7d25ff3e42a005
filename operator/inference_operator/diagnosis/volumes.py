"""A volume that cannot be attached or mounted. The pod's status does not show that; only Events do."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.explanations import with_cure
from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.inputs import DiagnosisInputs
from inference_operator.diagnosis.pending_causes import problem_from_events, volume_wait
from inference_operator.diagnosis.pod_diagnosis import PodDiagnosis
from inference_operator.views.lookups import EventsLookup, ObjectEvents
from inference_operator.views.pod import PodView, has_answered


@dataclass(frozen=True, slots=True)
class VolumeDiagnosis:
    """The volumes of starting pods."""

    diagnosis: PodDiagnosis | None = None
    lookup: EventsLookup | None = None
    """The Events that tell more."""
    due: datetime | None = None
    """Time from which that lookup is necessary."""


def volume_diagnosis(pods: Iterable[PodView], inputs: DiagnosisInputs) -> VolumeDiagnosis:
    """Why a pod waits for its volumes: at once if that is known from its node, else once it has waited for long."""
    pods = list(pods)
    if apart := _on_another_node(pods, inputs.one_node_claim):
        return VolumeDiagnosis(apart)
    waiting = [(wait, pod) for pod in pods if (wait := volume_wait(pod, namespace=inputs.namespace))]
    if not waiting:
        return VolumeDiagnosis()
    wait, pod = min(waiting, key=lambda pair: (pair[0].due, pair[1].name))
    if wait.due > inputs.now:
        return VolumeDiagnosis(due=wait.due)
    events = inputs.lookups.get(wait.lookup)
    problem = problem_from_events(events) if isinstance(events, ObjectEvents) else None
    if problem is None:
        return VolumeDiagnosis(lookup=wait.lookup)
    message = with_cure(f"Pod {pod.name} does not run: {problem.cause}", problem.cure)
    return VolumeDiagnosis(PodDiagnosis(pod, problem.reason, message), wait.lookup)


def _on_another_node(pods: Sequence[PodView], claim: str) -> PodDiagnosis | None:
    """An engine that was placed on another node than those that have the claim mounted."""
    there = sorted({pod.node for pod in pods if has_answered(pod) and pod.node})
    apart = (pod for pod in pods if pod.start and pod.node and not has_answered(pod) and pod.node not in there)
    pod = next(apart, None)
    if not claim or not there or pod is None:
        return None
    message = (
        f"Pod {pod.name} on node {pod.node} cannot mount the claim {claim}: it is ReadWriteOnce, and node {there[0]}"
        " uses it. Use a claim with ReadWriteMany, or as many engines as one node can take."
    )
    return PodDiagnosis(pod, Reason.VOLUME_UNAVAILABLE, message)
