"""The GPUs on which engines can be placed now: used where all engines of a plan are unschedulable.

A plan is made for what nodes have, whether other pods use it or not: a kind that is full today may be free when the
engine starts. If the scheduler then finds no node, the free GPUs are looked up, and the engines are sized again for
what is free. GPUs that no node has yet, because they are declared or named in the spec, count as free: a node may
come.
"""

from collections.abc import Iterable
from dataclasses import replace

from inference_operator.hardware.offers import GpuOffer
from inference_operator.manifest import Manifest
from inference_operator.planning.gpu_offers import GpuOffers
from inference_operator.views.lookups import ClusterGpus, FreeGpusLookup, LookupResults, NodeGpus
from inference_operator.views.node_fit import schedulable_now


def free_gpus_lookups(offers: GpuOffers) -> tuple[FreeGpusLookup, ...]:
    return tuple(FreeGpusLookup(resource) for resource in sorted({offer.resource for offer in offers.live}))


def placeable(offers: GpuOffers, results: LookupResults, pod: Manifest) -> GpuOffers:
    """The offers with as many GPUs in a node as are free on one; all of them while that is not known, or if none is.

    Args:
        pod: the scheduling fields of the engine's pod; nodes that it may not use have nothing for it.
    """
    known = {look.resource: results.get(look) for look in free_gpus_lookups(offers)}
    gpus = {
        resource: [node for node in result.nodes if schedulable_now(node.node, pod)]
        for resource, result in known.items()
        if isinstance(result, ClusterGpus)
    }
    left = tuple(usable for offer in offers.possible if (usable := _left(offer, offers, gpus.get(offer.resource))))
    return replace(offers, possible=left) if left and gpus else offers


def _left(offer: GpuOffer, offers: GpuOffers, nodes: Iterable[NodeGpus] | None) -> GpuOffer | None:
    """The offer with the most GPUs that are free on one of its nodes, and these nodes alone; None if none is."""
    if nodes is None or offer not in offers.live:
        return offer
    counts = [node.free for node in nodes if _has(node, offer)]
    free = max(counts, default=0)
    return replace(offer, per_node=min(offer.per_node, free), fixed_nodes=counts.count(free)) if free > 0 else None


def _has(node: NodeGpus, offer: GpuOffer) -> bool:
    """Whether a node is one of those that an offer was made from."""
    alike = node.total == offer.per_node
    return alike and (not offer.product or node.node.labels.get(offer.label) == offer.product)
