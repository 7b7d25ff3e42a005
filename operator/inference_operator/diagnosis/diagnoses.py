"""The diagnoses of all pods of an InferenceDeployment: of each role, and of the routers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.explanations import with_cure
from inference_operator.api.reasons import Reason
from inference_operator.api.status import StartupStatus
from inference_operator.diagnosis.component import Component, DiagnosisInputs
from inference_operator.diagnosis.node_autoscaler import autoscaler_due
from inference_operator.diagnosis.pending_causes import problem_from_events, volume_wait
from inference_operator.diagnosis.pod_diagnosis import PodDiagnosis, diagnosis_lookups, pod_diagnosis
from inference_operator.diagnosis.startup_progress import StartupProgress, startup_progress
from inference_operator.views.lookups import EventsLookup, Lookup, ObjectEvents
from inference_operator.views.pod import PodView, has_answered


@dataclass(frozen=True, slots=True)
class VolumeDiagnosis:
    diagnosis: PodDiagnosis | None = None
    lookup: EventsLookup | None = None
    due: datetime | None = None


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


@dataclass(frozen=True, slots=True)
class Diagnoses:
    problems: Mapping[str, PodDiagnosis]
    """The problem of each component that has one, by its name; roles before routers."""
    startups: Sequence[StartupProgress]
    volumes: VolumeDiagnosis
    """Of the roles, which may share a claim."""
    router: str
    """Name of the routers' component."""
    router_volumes: VolumeDiagnosis

    @property
    def problem(self) -> PodDiagnosis | None:
        """The problem that matters most. A failed pod, which is replaced, matters less than others."""
        return self._worst or self.volumes.diagnosis or self.router_volumes.diagnosis

    @property
    def router_problem(self) -> PodDiagnosis | None:
        return self.problems.get(self.router) or self.router_volumes.diagnosis

    @property
    def startup(self) -> StartupProgress:
        return next((startup for startup in self.startups if startup.status), StartupProgress())

    def lookups(self, inputs: DiagnosisInputs) -> tuple[Lookup, ...]:
        lookups = (self.startup.lookup, self.volumes.lookup, self.router_volumes.lookup)
        return (*(lookup for lookup in lookups if lookup), *diagnosis_lookups(self._worst, inputs))

    @property
    def due(self) -> Iterator[datetime]:
        starts = (startup.due for startup in self.startups)
        of_autoscaler = autoscaler_due(self._worst.pod) if self._worst else None
        moments = (*starts, self.volumes.due, self.router_volumes.due, of_autoscaler)
        return (moment for moment in moments if moment)

    @property
    def _worst(self) -> PodDiagnosis | None:
        return min(self.problems.values(), key=lambda problem: problem.pod.failed, default=None)


def diagnoses(routers: Component, reported: StartupStatus | None, inputs: DiagnosisInputs) -> Diagnoses:
    roles = tuple(inputs.roles.values())
    problems = ((role.name, pod_diagnosis(role.worst_pod, inputs)) for role in (*roles, routers))
    return Diagnoses(
        problems={name: problem for name, problem in problems if problem},
        startups=[_startup(role, reported, inputs) for role in roles],
        volumes=volume_diagnosis((pod for role in roles for pod in role.pods), inputs),
        router=routers.name,
        router_volumes=volume_diagnosis(routers.pods, inputs),
    )


def _startup(role: Component, reported: StartupStatus | None, inputs: DiagnosisInputs) -> StartupProgress:
    """The progress of a role's start, if it is reported: while no engine serves, and during a rollout."""
    if role.workload.ready and not role.workload.rolling:
        return StartupProgress()
    return startup_progress(role.pods, reported, inputs)
