"""View of an engine: one pod, or a group of pods on several nodes that serve one copy of the model together.

- The pods of a group have the same `inference-operator.dev/group` label and the same component.
- Their `apps.kubernetes.io/pod-index` label tells them apart. The pod with 0 is the leader: it serves requests, shows
  the metrics of the whole engine and has the traffic label. The others are workers.
- A pod without the group label is an engine of its own. Today's Deployments create only such pods.
- The pods of an engine share their fate: the engine serves while all of them do, and ends with any of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.reasons import Reason
from inference_operator.views.pod import PodProblem, PodView, has_answered
from inference_operator.views.pod_startup import StartupTimes


@dataclass(frozen=True, slots=True)
class EngineView:
    leader: PodView
    """The pod that serves requests. In a group that has lost its leader, the worker with the lowest index."""
    workers: tuple[PodView, ...] = ()

    @property
    def pods(self) -> tuple[PodView, ...]:
        return (self.leader, *self.workers)

    @property
    def name(self) -> str:
        return self.leader.name

    @property
    def uid(self) -> str:
        return self.leader.uid

    @property
    def component(self) -> str:
        return self.leader.component

    @property
    def address(self) -> str:
        """IP address of its leader, at which routers reach it; empty until it has one."""
        return self.leader.address

    @property
    def template(self) -> str | None:
        return self.leader.template

    @property
    def traffic(self) -> bool:
        return self.leader.traffic

    @property
    def ready(self) -> bool:
        return self.leader.index == 0 and all(pod.ready for pod in self.pods)

    @property
    def terminating(self) -> bool:
        return any(pod.terminating for pod in self.pods)

    @property
    def failed(self) -> bool:
        return any(pod.failed for pod in self.pods)

    @property
    def is_serving(self) -> bool:
        return self.ready and not self.terminating

    @property
    def has_answered(self) -> bool:
        return self.leader.index == 0 and all(has_answered(pod) for pod in self.pods)

    @property
    def worst_pod(self) -> PodView:
        """The pod that explains the engine's state: the first with a problem, else the first unready one."""
        troubled = (pod for pod in self.pods if pod.problem)
        unready = (pod for pod in self.pods if not pod.ready)
        return next(troubled, None) or next(unready, self.leader)

    @property
    def problem(self) -> PodProblem | None:
        return self.worst_pod.problem

    @property
    def is_unschedulable(self) -> bool:
        return any(pod.problem is not None and pod.problem.reason is Reason.UNSCHEDULABLE for pod in self.pods)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pod.node for pod in self.pods if pod.node))

    @property
    def is_scheduled(self) -> bool:
        return all(pod.node for pod in self.pods)

    @property
    def scheduled_part(self) -> float:
        return sum(bool(pod.node) for pod in self.pods) / len(self.pods)

    @property
    def is_starting(self) -> bool:
        return any(pod.start or pod.problem for pod in self.pods)

    @property
    def created(self) -> datetime | None:
        return min((pod.created for pod in self.pods if pod.created), default=None)

    @property
    def ready_since(self) -> datetime | None:
        """Since when all of its pods are ready; None while one is not."""
        return max((pod.ready_since for pod in self.pods if pod.ready_since), default=None) if self.ready else None

    @property
    def startup_times(self) -> StartupTimes | None:
        """Times of the steps of its start, of the last pod each; None while one is missing, or where it is unknown."""
        times = [pod.startup_times for pod in self.pods if pod.startup_times]
        if not self.ready or len(times) < len(self.pods):
            return None
        return StartupTimes(
            created=min(time.created for time in times),
            placed=max(time.placed for time in times),
            running=max(time.running for time in times),
            ready=max(time.ready for time in times),
        )


def engines_of(pods: Iterable[PodView]) -> list[EngineView]:
    groups: dict[tuple[str, str] | int, list[PodView]] = {}
    for number, pod in enumerate(pods):
        groups.setdefault((pod.component, pod.group) if pod.group else number, []).append(pod)
    ordered = (sorted(members, key=lambda pod: pod.index) for members in groups.values())
    return [EngineView(leader, tuple(workers)) for leader, *workers in ordered]
