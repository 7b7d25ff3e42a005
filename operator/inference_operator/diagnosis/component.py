"""What a diagnosis reads: pods of one component, a role or the routers, which of them explains its state, and more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from inference_operator.engines.base import Engine
from inference_operator.engines.group.ends import first_end
from inference_operator.views.engine import EngineView
from inference_operator.views.lookups import LookupResults
from inference_operator.views.pod import PodView
from inference_operator.views.workload import WorkloadView


@dataclass(frozen=True, slots=True)
class Component:
    name: str
    """The component label of its pods."""
    workload: WorkloadView
    pods: Sequence[PodView]
    """Its pods that stay."""
    engine: Engine | None = None
    """The engine that reads the logs of its containers; None for routers."""

    @property
    def worst_pod(self) -> PodView | None:
        """The pod to diagnose: the oldest one with a problem. Failed pods, which are replaced, come last.

        Before them come those that ended only because another member of their group did. None also if the problem is
        over: the failed pod has been replaced already.
        """
        replaced = self.workload.ready >= self.workload.desired and not self.workload.rolling
        rejected = {pod.uid for pod in rejected_pods(self.pods)}
        troubled = [
            pod
            for pod in self.pods
            if pod.problem and not (pod.failed and (replaced or (pod.rejected and pod.uid not in rejected)))
        ]
        return min(troubled, key=_blame, default=None)


def rejected_pods(pods: Sequence[PodView]) -> Sequence[PodView]:
    """The pods that nodes reject now, the oldest first: a later pod that a node has admitted ends that."""
    admitted = max((str(pod.created) for pod in pods if pod.admitted and not pod.failed), default="")
    return sorted(
        (pod for pod in pods if pod.rejected and str(pod.created) > admitted),
        key=lambda pod: (str(pod.created), pod.name),
    )


def _blame(pod: PodView) -> tuple[bool, bool, int, str, str]:
    """The order in which pods with a problem explain a component; the first one explains it best.

    Of members that only name another one, the leader knows best: it tells the workers who was first.
    """
    followed = ended_first(pod) is not None
    return pod.failed, followed, pod.index if followed else 0, str(pod.created), pod.name


def ended_first(pod: PodView) -> str | None:
    """The other pod that ended this one's group, as this one tells; None if it tells none."""
    ended = pod.problem.terminated if pod.problem else None
    end = first_end(ended.message) if ended else None
    return end.pod if end else None


def stays(view: PodView | EngineView, workload: WorkloadView) -> bool:
    return is_latest(view, workload) and not view.terminating


def is_latest(view: PodView | EngineView, workload: WorkloadView) -> bool:
    return not (view.template and workload.template and view.template != workload.template)


def seen(workload: WorkloadView, pods: Sequence[PodView] | Sequence[EngineView]) -> WorkloadView:
    """The workload as its controller sees it.

    A change that the controller has not seen yet is no rollout if there is no pod, or if all have the workload's
    template: then it is another number of pods.
    """
    same = all(pod.template == workload.template for pod in pods) if pods else workload.replicas == 0
    return replace(workload, observed=workload.observed or same)


def in_engines(workload: WorkloadView, engines: Sequence[EngineView]) -> WorkloadView:
    """The workload with numbers of engines.

    Its controller counts pods. These are the engines, unless groups of pods are.
    """
    if not any(engine.leader.group for engine in engines):
        return workload
    running = [engine for engine in engines if not (engine.terminating or engine.failed)]
    return replace(
        workload,
        replicas=len(running),
        updated=sum(engine.template == workload.template for engine in running),
        ready=sum(engine.ready for engine in running),
    )


@dataclass(frozen=True, slots=True)
class DiagnosisInputs:
    namespace: str
    roles: Mapping[str, Component]
    """The roles by name; pods of other components, such as routers, have none."""
    lookups: LookupResults
    read_logs: bool
    nodes_visible: bool
    now: datetime
    one_node_claim: str = ""
    """Name of the engines' claim, if pods on one node only can mount it; empty if not."""

    def engine_of(self, pod: PodView) -> Engine | None:
        role = self.roles.get(pod.component)
        return role.engine if role else None
