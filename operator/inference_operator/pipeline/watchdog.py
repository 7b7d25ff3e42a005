"""The parts of the watchdog: pods to delete, and engines to take out of traffic or back in."""

from collections.abc import Iterator, Sequence

from inference_operator.objects.names import ROUTER
from inference_operator.objects.pod_patch import PodPatch
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.part import Feature, Part
from inference_operator.roles.context import LiveRole
from inference_operator.workload.eviction.failed_pods import failed_pods
from inference_operator.workload.eviction.hardware_errors import pods_to_move
from inference_operator.workload.eviction.lost_nodes import lost_due, pods_of_lost_nodes
from inference_operator.workload.eviction.stall import stalled_engines, traffic_changes


def removals(inputs: Inputs, roles: Sequence[LiveRole]) -> Part:
    """Stalled engines, failed pods, and pods on nodes with hardware errors or that do not answer. Successors follow.

    Of two deletions of a pod the last one counts: nobody ends a pod on a lost node, so it gets no time for that.
    """
    times = [lost_due(live.engines, inputs.nodes, inputs.now) for live in roles]
    failed = [failed_pods(pods, inputs.now) for pods in (*(live.pods for live in roles), inputs.pods_of(ROUTER))]
    times.extend(due for _, due in failed)
    patches = (
        *(patch for live in roles for patch in _removals(inputs, live)),
        *(p for each, _ in failed for p in each),
    )
    deleted = {(patch.pod.name, patch.pod.uid): patch for patch in patches}
    return Part(feature=Feature.REMOVALS, pods=tuple(deleted.values()), due=min(filter(None, times), default=None))


def _removals(inputs: Inputs, live: LiveRole) -> Iterator[PodPatch]:
    yield from stalled_engines(
        live.engines, inputs.samples, desired=live.view.desired, stall_seconds=inputs.settings.stall_seconds
    )
    yield from pods_to_move(live.workload, live.engines)
    yield from pods_of_lost_nodes(live.engines, inputs.nodes, inputs.now)


def traffic(inputs: Inputs, roles: Sequence[LiveRole]) -> Part:
    seconds = inputs.settings.no_progress_seconds
    changes = (patch for live in roles for patch in traffic_changes(live.engines, inputs.samples, seconds=seconds))
    return Part(feature=Feature.TRAFFIC, pods=tuple(changes))
