"""Moves an engine away from a node whose GPU reports hardware errors: its pods are deleted once and scheduled again.

1. A pod whose container ended `MOST_ENDS` times, the last time with a hardware error, is recorded in an annotation of
   the workload, with its node. Only one pod of a node is ever recorded.
2. A pod that the live annotation names is deleted, with all other pods of its engine: they wait for it, and may have to
   be placed near it. So each node costs at most one deletion, also if the operator restarts between the two steps, or
   if the next pod comes to the same node.
3. The record of a node ends when the node is cordoned or gone: somebody has acted. Where the operator cannot see nodes,
   it stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import TypeAdapter

from inference_operator.api.reasons import Reason
from inference_operator.engines.base import Engine
from inference_operator.manifest import Manifest
from inference_operator.objects.annotation import JsonAnnotation
from inference_operator.objects.pod_patch import PodDeletion, PodPatch
from inference_operator.views.engine import EngineView
from inference_operator.views.lookups import LogText, LookupResults
from inference_operator.views.node import NodeView
from inference_operator.views.pod import PodView
from inference_operator.workload.eviction.stall import STALLED_GRACE_SECONDS

MOVED_ANNOTATION: JsonAnnotation[Mapping[str, str]] = JsonAnnotation(
    "inference-operator.dev/moved-pods", TypeAdapter(dict[str, str])
)
"""Annotation of a workload: `MovedPods`; none means that no pod was moved."""
MOST_ENDS = 3
"""Runs of a container on one node. A single error of memory that ECC can repair at the next start passes by itself
(NVIDIA, "GPU memory error management": row remapping takes effect after a reset)."""

RECORD_TIME = timedelta(seconds=10)
"""After this time a new record is read again, and the pod is deleted. An own write causes no event. Where the record
cannot be written, it is tried again as often."""


@dataclass(frozen=True, slots=True)
class MovedPods:
    """The uid of the pod that is or was deleted, by node."""

    uids: Mapping[str, str]

    @property
    def entry(self) -> Mapping[str, str]:
        return MOVED_ANNOTATION.entry(self.uids or None)

    @property
    def notice(self) -> str:
        """The cure for users, in a sentence; empty if there is none."""
        if not self.uids:
            return ""
        nodes = ", ".join(f"`{name}`" for name in sorted(self.uids))
        return (
            f"An engine was moved away from node {nodes} after hardware errors of a GPU: cordon the node, then reset or"
            " replace the GPU."
        )


def recorded_moves(workload: Manifest | None) -> MovedPods:
    return MovedPods(MOVED_ANNOTATION.read(workload) or {})


def moved_pods(
    live: Manifest | None,
    engines: Sequence[EngineView],
    lookups: LookupResults,
    engine: Engine,
    nodes: Sequence[NodeView] | None,
) -> MovedPods:
    kept = {node: uid for node, uid in recorded_moves(live).uids.items() if not _is_handled(node, nodes)}
    pods = (pod for engine in engines for pod in engine.pods)
    broken = [pod for pod in pods if _has_broken_gpu(pod, lookups, engine) and not _is_handled(pod.node, nodes)]
    return MovedPods({**{pod.node: pod.uid for pod in sorted(broken, key=lambda pod: pod.name)}, **kept})


def move_due(live: Manifest | None, moved: MovedPods, now: datetime) -> datetime | None:
    """When to reconcile again so that a newly recorded pod is deleted; None if the live record is up to date."""
    return None if moved == recorded_moves(live) else now + RECORD_TIME


def pods_to_move(live: Manifest | None, engines: Sequence[EngineView]) -> tuple[PodPatch, ...]:
    """The pods to delete: those of engines with a pod that the live workload records and that still exists."""
    recorded = recorded_moves(live).uids
    moved = [(engine, pod) for engine in engines for pod in engine.pods if _is_moved(pod, recorded)]
    removals = (removal for engine, broken in moved for removal in _removals(engine, broken))
    return tuple({removal.pod.uid: removal for removal in removals}.values())


def _is_moved(pod: PodView, recorded: Mapping[str, str]) -> bool:
    """Whether a pod is recorded and has not been replaced or recovered since."""
    return bool(pod.node) and recorded.get(pod.node) == pod.uid and not (pod.terminating or pod.ready)


def _removals(engine: EngineView, broken: PodView) -> Iterator[PodPatch]:
    """The removal of the broken pod and of the other pods of its engine."""
    ended = f"ended {MOST_ENDS} times on node `{broken.node}`, at last with a hardware error of a GPU"
    why = f"Pod `{broken.name}` {ended}"
    for pod in (broken, *(pod for pod in engine.pods if pod is not broken and not pod.terminating)):
        yield PodPatch(pod=pod, delete=PodDeletion(why, Reason.GPU_HARDWARE_ERROR, STALLED_GRACE_SECONDS))


def _is_handled(node: str, nodes: Sequence[NodeView] | None) -> bool:
    return nodes is not None and not any(view.name == node and not view.unschedulable for view in nodes)


def _has_broken_gpu(pod: PodView, lookups: LookupResults, engine: Engine) -> bool:
    """Whether a pod's main container ended often enough, the last time with a hardware error."""
    ended = pod.problem.terminated if pod.problem else None
    if ended is None or not pod.node or pod.terminating or ended.log.container != pod.component:
        return False
    log = lookups.get(ended.log)
    texts = (ended.message, log.text if isinstance(log, LogText) else "")
    errors = (engine.diagnose(text) for text in texts)
    return ended.log.run + 1 >= MOST_ENDS and any(
        error is not None and error.reason is Reason.GPU_HARDWARE_ERROR for error in errors
    )
