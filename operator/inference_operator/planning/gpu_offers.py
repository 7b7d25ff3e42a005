"""Which GPUs an engine may be sized for: nodes that are there, nodes that could be, and what the resource names."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from inference_operator.api.gpu import GpuSpec
from inference_operator.hardware.offers import (
    GPU_RESOURCE,
    VENDOR,
    GpuOffer,
    declared_offer,
    merged,
    offer_named,
    offers_of_node,
    priced,
)
from inference_operator.manifest import Manifest
from inference_operator.observed.admission import admits, suits
from inference_operator.observed.node import NodeView
from inference_operator.settings import PREFIX, Capacity, Settings
from inference_operator.sizing.plan import Plan

HINTED_PER_NODE = 8
"""GPUs of a node that somebody names and nobody has seen: as most servers with NVLink have."""


@dataclass(frozen=True, slots=True)
class GpuOffers:
    """GPUs that there are or could be, for pods that may be where these are."""

    live: tuple[GpuOffer, ...]
    """Of nodes that are there."""
    possible: tuple[GpuOffer, ...]
    """What may be sized for: with the declared ones and those that the resource names."""
    unknown_nodes: int
    """Nodes with GPUs of which no label tells the kind."""
    visible: bool
    """Whether this operator sees nodes at all."""

    @property
    def products(self) -> frozenset[str]:
        """The products of nodes that are there."""
        return frozenset(one.product for one in self.live if one.product)

    def awaited(self, kind: str) -> str:
        """The kind, if no node that is there has any of it; empty where that is not known."""
        absent = kind and self.visible and not any(one.kind == kind for one in self.live)
        return kind if absent else ""


def gpu_offers(nodes: Sequence[NodeView] | None, pod: Manifest, asked: GpuSpec, settings: Settings) -> GpuOffers:
    """The GPUs that an engine may be sized for.

    Args:
        nodes: nodes with GPUs; None where this operator sees none.
        pod: the fields of the engine's pod that say where it may be.
        asked: which GPUs the resource names.
        settings: what the platform declares, and whether only what is there counts.
    """
    declared = [one for text in settings.gpu_offers if (one := declared_offer(text)) is not None]
    suiting = [node for node in nodes or () if suits(node, pod)]
    hinted = _hinted(asked)
    of_nodes = {node.name: _of_node(node, hinted) for node in suiting}
    live = merged(priced((one for offers in of_nodes.values() for one in offers), declared))
    fixed = settings.capacity is Capacity.FIXED and nodes is not None
    coming = () if fixed else tuple(_coming(declared, hinted, live))
    possible = merged([*live, *coming])
    if asked.resource_name:
        possible = tuple(one for one in possible if one.resource == asked.resource_name)
    unknown = sum(not offers for offers in of_nodes.values())
    return GpuOffers(live, possible, unknown, visible=nodes is not None)


def unknown_offers(settings: Settings) -> list[str]:
    """What is declared and no table knows, one line each.

    Examples:
        >>> unknown_offers(Settings(gpu_offers=("L4:4", "abacus:1")))
        ['INFERENCE_OPERATOR_GPU_OFFERS: `abacus:1` names no kind of GPU that is known; write for example `L4:4`']
    """
    unknown = [text for text in settings.gpu_offers if declared_offer(text) is None]
    cure = "names no kind of GPU that is known; write for example `L4:4`"
    return [f"{PREFIX}GPU_OFFERS: `{text}` {cure}" for text in unknown]


def room_for(nodes: Sequence[NodeView], pod: Manifest, plan: Plan) -> int:
    """Engines of this plan that the nodes could hold if nothing else were on them."""
    amount = plan.gpus_per_replica
    return sum(node.count(plan.resource) // amount for node in nodes if admits(node, pod)) if amount else 0


def has_gpus(node: NodeView) -> bool:
    """Whether a node has any GPU; all others are of no interest."""
    return any(name.startswith(VENDOR) and node.count(name) for name in node.allocatable)


def _of_node(node: NodeView, hinted: Sequence[GpuOffer]) -> Sequence[GpuOffer]:
    """What a node offers; where no label tells the kind of its GPUs, the one kind that the resource names."""
    found = offers_of_node(node.labels, node.allocatable)
    count = node.count(GPU_RESOURCE)
    return found or ([replace(hinted[0], per_node=count)] if count and len(hinted) == 1 else [])


def _hinted(asked: GpuSpec) -> Sequence[GpuOffer]:
    offers = (offer_named(name, per_node=HINTED_PER_NODE) for name in asked.products)
    kinds = {one.kind: _asked_by(asked.resource_name, one) for one in offers if one is not None}
    return list(kinds.values())


def _asked_by(resource: str | None, hinted: GpuOffer) -> GpuOffer:
    """A hint under the resource that is named; where that tells a slice, the product's label has no profile."""
    if not hinted.slice:
        return replace(hinted, product="")
    return replace(hinted, resource=resource, product="") if resource else hinted


def _coming(declared: Sequence[GpuOffer], hinted: Iterable[GpuOffer], live: Sequence[GpuOffer]) -> Iterator[GpuOffer]:
    """What no node that is there offers: other kinds, or more GPUs on one node; of a kind that is there with its label.

    What a resource names counts only where neither a node nor the settings know that kind.
    """
    known = {one.kind: one for one in live}
    for one in declared:
        there = known.get(one.kind)
        if there is None:
            yield one
        elif one.per_node > max(other.per_node for other in live if other.kind == one.kind):
            yield replace(one, product=one.product or there.product, label=there.label)
    kinds = known.keys() | {one.kind for one in declared}
    yield from (one for one in hinted if one.kind not in kinds)
