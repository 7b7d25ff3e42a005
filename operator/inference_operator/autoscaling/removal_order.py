"""The order in which engines are removed: first those without a node, then those with the fewest requests.

A ReplicaSet deletes pods without a node first, then those that are not ready, then by the annotation
`controller.kubernetes.io/pod-deletion-cost`, the lowest first (Kubernetes 1.36, pkg/controller/controller_utils.go,
`ActivePodsWithRanks`). A pod without the annotation counts as 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inference_operator.manifest import POD, Ref
from inference_operator.objects.names import is_role
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import PodView
from inference_operator.views.samples import Samples


@dataclass(frozen=True, slots=True)
class DeletionCost:
    """A new value of the annotation of an engine's leader, or of a router."""

    ref: Ref
    uid: str
    cost: int
    """The unfinished requests of an engine; less than 0 for an engine or router on a draining node."""
    traffic: bool | None
    """Its traffic label; None for a router, which has none. Server-side apply removes fields that a later apply omits,
    so the label is sent with the annotation."""
    why: str
    """The reason for the log."""


def deletion_costs(
    engines: Sequence[EngineView], samples: Samples, *, live: int, desired: int, namespace: str
) -> tuple[DeletionCost, ...]:
    """The annotations to write before there are fewer replicas; none otherwise, so that they cost few requests.

    Args:
        samples: their latest samples; an engine without one keeps its annotation.
    """
    if desired >= live or desired == 0:
        return ()
    ready = [engine for engine in engines if engine.is_serving and engine.uid in samples.engines]
    outstanding = ((engine.leader, samples.engines[engine.uid].outstanding) for engine in ready)
    costs = ((pod, cost, f"it has {cost} requests, and some engine will be deleted") for pod, cost in outstanding)
    return new_costs(costs, namespace)


def new_costs(costs: Iterable[tuple[PodView, int, str]], namespace: str) -> tuple[DeletionCost, ...]:
    """The annotations of pods that have another cost.

    Args:
        costs: pods, with the cost that each should have, and why.
    """
    return tuple(
        DeletionCost(Ref(POD, namespace, pod.name), pod.uid, cost, pod.traffic if is_role(pod.component) else None, why)
        for pod, cost, why in costs
        if cost != pod.deletion_cost
    )
