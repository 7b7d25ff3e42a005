"""The diagnoses of all pods of an InferenceDeployment: of each role, and of the routers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.status import StartupStatus
from inference_operator.diagnosis.component import Component
from inference_operator.diagnosis.inputs import DiagnosisInputs
from inference_operator.diagnosis.pod_diagnosis import PodDiagnosis, diagnosis_due, diagnosis_lookups, pod_diagnosis
from inference_operator.diagnosis.startup_progress import StartupProgress, startup_progress
from inference_operator.diagnosis.volumes import VolumeDiagnosis, volume_diagnosis
from inference_operator.views.lookups import Lookup


@dataclass(frozen=True, slots=True)
class Diagnoses:
    """The problems of pods, and the progress of starts."""

    problems: Mapping[str, PodDiagnosis]
    """The problem of each component that has one, by its name; roles before routers."""
    startups: Sequence[StartupProgress]
    """The start of each role."""
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
        """The start to report: that of the first role which has one."""
        return next((startup for startup in self.startups if startup.status), StartupProgress())

    def lookups(self, inputs: DiagnosisInputs) -> tuple[Lookup, ...]:
        lookups = (self.startup.lookup, self.volumes.lookup, self.router_volumes.lookup)
        return (*(lookup for lookup in lookups if lookup), *diagnosis_lookups(self._worst, inputs))

    @property
    def due(self) -> Iterator[datetime]:
        starts = (startup.due for startup in self.startups)
        moments = (*starts, self.volumes.due, self.router_volumes.due, diagnosis_due(self._worst))
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
