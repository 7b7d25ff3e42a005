"""The order in which engines are removed: first those without a node, then those with the fewest requests.

A ReplicaSet deletes pods without a node first, then those that are not ready, then by the annotation
`controller.kubernetes.io/pod-deletion-cost`, the lowest first (Kubernetes 1.36, pkg/controller/controller_utils.go,
`ActivePodsWithRanks`). A pod without the annotation counts as 0.
"""

from collections.abc import Iterable, Sequence

from inference_operator.objects.pod_patch import PodPatch
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import PodView
from inference_operator.views.samples import Samples


def deletion_costs(engines: Sequence[EngineView], samples: Samples, *, live: int, desired: int) -> tuple[PodPatch, ...]:
    """The annotations to write before there are fewer replicas; none otherwise, so that they cost few requests.

    Args:
        samples: their latest samples; an engine without one keeps its annotation.
    """
    if desired >= live or desired == 0:
        return ()
    ready = [engine for engine in engines if engine.is_serving and engine.uid in samples.engines]
    outstanding = ((engine.leader, samples.engines[engine.uid].outstanding) for engine in ready)
    costs = ((pod, cost, f"it has {cost} requests, and some engine will be deleted") for pod, cost in outstanding)
    return new_costs(costs)


def new_costs(costs: Iterable[tuple[PodView, int, str]]) -> tuple[PodPatch, ...]:
    """The annotations of pods that have another cost.

    Args:
        costs: pods, with the cost that each should have, and why.
    """
    return tuple(
        PodPatch(pod=pod, deletion_cost=cost, why=why) for pod, cost, why in costs if cost != pod.deletion_cost
    )
