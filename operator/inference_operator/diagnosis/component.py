"""The pods of one component, a role or the routers, and which of them explains its state."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.views.pod import PodView
from inference_operator.views.workload import WorkloadView


@dataclass(frozen=True, slots=True)
class Component:
    """A workload and its pods."""

    name: str
    """The component label of its pods."""
    workload: WorkloadView
    pods: Sequence[PodView]
    """Those that stay: not of an earlier template, and not being deleted."""

    @property
    def worst_pod(self) -> PodView | None:
        """The pod to diagnose: the oldest one with a problem. Failed pods, which are replaced, come last.

        None also if the problem is over: the failed pod has been replaced already.
        """
        replaced = self.workload.ready >= self.workload.desired and not self.workload.rolling
        troubled = [pod for pod in self.pods if pod.problem and not (pod.failed and replaced)]
        return min(troubled, key=lambda pod: (pod.failed, str(pod.created), pod.name), default=None)


def component(name: str, workload: WorkloadView, pods: Sequence[PodView]) -> Component:
    """The component of this name.

    Args:
        name: its component label.
        workload: its workload.
        pods: all of its pods.
    """
    return Component(name, workload, [pod for pod in pods if _stays(pod, workload)])


def _stays(pod: PodView, workload: WorkloadView) -> bool:
    earlier = pod.template and workload.template and pod.template != workload.template
    return not (pod.terminating or earlier)
