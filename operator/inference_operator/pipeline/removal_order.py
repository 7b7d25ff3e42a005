"""The part of deletion costs: which engines and routers go first whenever there are too many.

A ReplicaSet deletes pods without a node first, then those that are not ready, then by the annotation
`controller.kubernetes.io/pod-deletion-cost`, the lowest first (Kubernetes 1.36, pkg/controller/controller_utils.go,
`ActivePodsWithRanks`). A pod without the annotation counts as 0.
"""

from collections.abc import Collection, Iterable, Sequence

from inference_operator.objects.pod_patch import PodPatch
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Part
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import PodView
from inference_operator.views.samples import Samples
from inference_operator.workload.eviction.drain import DRAINING_COST


def removal_order(inputs: Inputs, planned: Planned) -> Part:
    """Pods on nodes that are leaving go first, then engines with few requests, where autoscaling takes some away.

    The mark of a pod whose node stays after all is taken back, if that is one with GPUs: other nodes that stay cannot
    be told from those that are gone, whose pods keep it.
    """
    if planned.hold.holds_others:
        return Part(feature=Feature.REMOVAL_ORDER, pods=_of_scaling(inputs, planned))
    moves = [move for move in (planned.router_move, *planned.engine_moves) if move.moves]
    leaving = {engine.uid: engine.leader for move in moves for engine in move.draining}
    others = _of_scaling(inputs, planned, besides=leaving)
    known = {*leaving, *(cost.pod.uid for cost in others)}
    staying = {node.name for node in inputs.nodes or ()} - set(inputs.leaving or ())
    marked = (pod for pod in inputs.pods if pod.deletion_cost == DRAINING_COST and not pod.terminating)
    costs = [
        *((pod, DRAINING_COST, "its node is leaving, so it goes first") for pod in leaving.values() if not pod.group),
        *((pod, 0, "its node stays") for pod in marked if pod.node in staying and pod.uid not in known),
    ]
    marks = _new_costs(costs)
    return Part(feature=Feature.REMOVAL_ORDER, pods=(*others, *marks))


def _of_scaling(inputs: Inputs, planned: Planned, besides: Collection[str] = ()) -> tuple[PodPatch, ...]:
    """Which engines should go later than others, where autoscaling takes some away; not the pods of these uids."""
    return tuple(
        cost
        for role in planned.roles
        if role.context.spec.stated.autoscaling
        for cost in deletion_costs(
            role.context.live.engines,
            inputs.samples,
            live=role.context.live.view.desired,
            desired=role.workload.replicas,
        )
        if cost.pod.uid not in besides
    )


def deletion_costs(engines: Sequence[EngineView], samples: Samples, *, live: int, desired: int) -> tuple[PodPatch, ...]:
    """The annotations to write before there are fewer replicas; none otherwise, so that they cost few requests.

    An engine without a sample keeps its annotation.
    """
    if desired >= live or desired == 0:
        return ()
    ready = [engine for engine in engines if engine.is_serving and engine.uid in samples.engines]
    outstanding = ((engine.leader, samples.engines[engine.uid].outstanding) for engine in ready)
    costs = ((pod, cost, f"it has {cost} requests, and some engine will be deleted") for pod, cost in outstanding)
    return _new_costs(costs)


def _new_costs(costs: Iterable[tuple[PodView, int, str]]) -> tuple[PodPatch, ...]:
    """The annotations of pods that have another cost."""
    return tuple(
        PodPatch(pod=pod, deletion_cost=cost, why=why) for pod, cost, why in costs if cost != pod.deletion_cost
    )
