"""The parts of the watchdog: pods to delete, and engines to take out of traffic or back in."""

from collections.abc import Iterator, Sequence

from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.part import Feature, Part
from inference_operator.roles.context import LiveRole
from inference_operator.workload.hardware_errors import pods_to_move
from inference_operator.workload.lost_nodes import lost_due, pods_of_lost_nodes
from inference_operator.workload.stall import Removal, stalled_engines
from inference_operator.workload.traffic import traffic_changes


def removals(inputs: Inputs, roles: Sequence[LiveRole]) -> Part:
    """Stalled engines, and pods on nodes with hardware errors or that do not answer. Successors follow."""
    times = [lost_due(live.engines, inputs.nodes, inputs.now) for live in roles]
    return Part(
        feature=Feature.REMOVALS,
        removals=tuple(one for live in roles for one in _removals(inputs, live)),
        due=min(filter(None, times), default=None),
    )


def _removals(inputs: Inputs, live: LiveRole) -> Iterator[Removal]:
    namespace = inputs.resource.key.namespace
    yield from stalled_engines(
        live.engines,
        inputs.samples,
        desired=live.view.desired,
        namespace=namespace,
        stall_seconds=inputs.settings.stall_seconds,
    )
    yield from pods_to_move(live.workload, live.engines, namespace=namespace)
    yield from pods_of_lost_nodes(live.engines, inputs.nodes, inputs.now, namespace=namespace)


def traffic(inputs: Inputs, roles: Sequence[LiveRole]) -> Part:
    """Engines to take out of traffic, or back in."""
    changes = tuple(
        change
        for live in roles
        for change in traffic_changes(
            live.engines,
            inputs.samples,
            namespace=inputs.resource.key.namespace,
            seconds=inputs.settings.no_progress_seconds,
        )
    )
    return Part(feature=Feature.TRAFFIC, traffic=changes)
