"""Deletes the pods of groups on nodes that are gone: a StatefulSet waits for them for ever, unlike a Deployment.

1. A pod is looked at while it is a member of a group that cannot serve: it is being deleted, or is not ready.
2. Its node is out of service, since somebody has set that taint: it is deleted.
3. Its node has not been ready for `LOST_AFTER`, and Kubernetes has begun to delete the pod: it is deleted.
4. While no node is ready, nobody knows more than that the API server hears of none: none is deleted by rule 3.
5. Where the operator does not see the node, a person is told, once the pod should have ended by itself.

The operator does not ask the member itself, since it would ask through the network that may have failed. It need not:
when the rest of a group does not hear a member for 10 s, all of them end, and so does the member that hears nobody
(engines/group). So a pod that still runs on a node that is cut off does nothing, and joins no group: its successor has
its name, and another address. Kubernetes itself deletes the pod only where it believes the node to be gone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from inference_operator.api.reasons import Reason
from inference_operator.objects.pod_patch import PodDeletion, PodPatch
from inference_operator.views.draining_node import OUT_OF_SERVICE
from inference_operator.views.engine import EngineView
from inference_operator.views.node import NodeView
from inference_operator.views.pod import PodView

LOST_AFTER = timedelta(seconds=330)
"""How long a node may not be ready. Kubernetes deletes its pods after 300 s (`DefaultTolerationSeconds`, Kubernetes
documentation, "Taints and Tolerations", taint based evictions); the rest is for the deletion to be seen."""

ENDS_LATE = timedelta(seconds=60)
"""Time after the grace period in which a kubelet that runs reports the end of a pod. It needs a few seconds."""


@dataclass(frozen=True, slots=True)
class LostPod:
    pod: PodView
    why: str
    """What is known of its node, in a phrase."""
    due: datetime | None = None
    """When the operator deletes it; None if it does not."""
    by_hand: bool = False

    def sentence(self, namespace: str) -> str:
        begin = f"Pod {self.pod.name} is on node `{self.pod.node}`, {self.why}"
        if self.by_hand:
            return (
                f"{begin}. The operator cannot see whether that node is gone. If it is:"
                f" `kubectl delete pod {self.pod.name} -n {namespace} --force`."
            )
        if self.due is None:
            return f"{begin}. Once Kubernetes ends the pod, the operator deletes it, and a new one starts elsewhere."
        return f"{begin}. The operator deletes it at {self.due:%H:%M:%S} UTC, and a new one starts elsewhere."


def lost_pods(engines: Sequence[EngineView], nodes: Sequence[NodeView] | None, now: datetime) -> Sequence[LostPod]:
    return [lost for pod in _members(engines) if (lost := _lost(pod, nodes, now))]


def pods_of_lost_nodes(
    engines: Sequence[EngineView], nodes: Sequence[NodeView] | None, now: datetime
) -> tuple[PodPatch, ...]:
    """The pods to delete at once: nobody can end them otherwise."""
    due = ((lost.pod, lost.why) for lost in lost_pods(engines, nodes, now) if lost.due and lost.due <= now)
    causes = ((pod, f"Pod `{pod.name}` is on node `{pod.node}`, {why}") for pod, why in due)
    return tuple(PodPatch(pod=pod, delete=PodDeletion(text, Reason.NODE_LOST, 0)) for pod, text in causes)


def lost_due(engines: Sequence[EngineView], nodes: Sequence[NodeView] | None, now: datetime) -> datetime | None:
    """When to look again: a pod becomes due, or late; None if none does."""
    times = [lost_pod.due for lost_pod in lost_pods(engines, nodes, now) if lost_pod.due]
    late = [pod.ends_by + ENDS_LATE for pod in _members(engines) if pod.ends_by]
    return min((moment for moment in (*times, *late) if moment > now), default=None)


def _members(engines: Sequence[EngineView]) -> Iterator[PodView]:
    """The pods that have a node, of groups that cannot serve."""
    groups = (engine for engine in engines if engine.leader.group and not engine.is_serving)
    return (pod for engine in groups for pod in engine.pods if pod.node)


def _lost(pod: PodView, nodes: Sequence[NodeView] | None, now: datetime) -> LostPod | None:
    node = next((node for node in nodes or () if node.name == pod.node), None)
    if node is None:
        is_late = pod.ends_by is not None and now >= pod.ends_by + ENDS_LATE
        return LostPod(pod, f"and should have ended at {pod.ends_by:%H:%M:%S} UTC", by_hand=True) if is_late else None
    if not (pod.terminating or not pod.ready):
        return None
    if any(taint.key == OUT_OF_SERVICE for taint in node.taints):
        return LostPod(pod, f"which has the taint `{OUT_OF_SERVICE}`", now)
    if node.unready_since is None:
        return None
    may_end = pod.terminating and any(node.ready for node in nodes or ())
    why = f"which has not been ready since {node.unready_since:%H:%M:%S} UTC"
    return LostPod(pod, why, node.unready_since + LOST_AFTER if may_end else None)
