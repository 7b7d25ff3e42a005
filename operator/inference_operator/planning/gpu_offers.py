"""The GPUs that an engine may be sized for: of existing nodes, declared by the operator, or named in the spec."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from inference_operator.api.hardware import GpuSpec
from inference_operator.api.spec import Spec
from inference_operator.hardware.needs import GpuNeeds
from inference_operator.hardware.node_labels import unknown_kind
from inference_operator.hardware.offers import GpuOffer, declared_offer, merged, offer_named, offers_of_node, priced
from inference_operator.hardware.resources import GPU_RESOURCE, is_gpu
from inference_operator.manifest import Manifest
from inference_operator.settings import PREFIX, Capacity, Settings
from inference_operator.sizing.plan import Plan
from inference_operator.views.node import NodeView
from inference_operator.views.node_fit import engines_in, matches_node, schedulable_now

UNKNOWN_KIND = "unknown"
LINKED_PER_NODE = 8
"""GPUs of a node that does not exist yet, for kinds with NVLink: most servers with it have as many. Of other kinds a
node is taken to have one, so that what is planned runs on each node."""


@dataclass(frozen=True, slots=True)
class GpuOffers:
    live: tuple[GpuOffer, ...]
    possible: tuple[GpuOffer, ...]
    """GPUs to size for: the live ones, declared ones, and those that the spec names."""
    unknown_nodes: int
    """Nodes with GPUs of unknown kind, since no label names it."""
    visible: bool
    excluded: tuple[str, ...] = ()
    """GPUs that the engine's image cannot use: the problem of each, and what to do; in sentences."""

    def products(self, *, besides: str | None = None) -> tuple[str, ...]:
        """Sorted, without those of a kind (`besides`)."""
        return tuple(sorted({offer.product for offer in self.live if offer.product and offer.kind != besides}))

    def missing_gpu_kind(self, kind: str) -> str:
        absent = kind and self.visible and not any(offer.kind == kind for offer in self.live)
        return kind if absent else ""


def gpu_offers(
    nodes: Sequence[NodeView] | None, pod: Manifest, requested: GpuSpec, settings: Settings, at_least: int = 1
) -> GpuOffers:
    """The GPUs that an engine may be sized for.

    Args:
        nodes: nodes with GPUs; None if the operator cannot list nodes.
        at_least: GPUs of a node that the spec asks for, so that nodes are taken to have them.
    """
    hinted = _hinted(requested, at_least)
    declared = [offer for text in settings.gpu_offers if (offer := declared_offer(text)) is not None]
    declared += hinted if requested.per_node else []
    suiting = _suiting(nodes, pod)
    of_nodes = {node.name: _of_node(node, hinted, settings.gpu_node_labels) for node in suiting}
    live = merged(priced((offer for offers in of_nodes.values() for offer in offers), declared))
    fixed = settings.capacity is Capacity.FIXED and nodes is not None
    named = () if fixed else {offer.kind for offer in (*declared, *hinted)}
    live = tuple(offer if offer.kind in named else _limited(offer, live, fixed=fixed) for offer in live)
    coming = () if fixed else tuple(_coming(declared, hinted, live))
    possible = merged([*live, *coming])
    if requested.resource_name:
        possible = tuple(offer for offer in possible if offer.resource == requested.resource_name)
    unknown = sum(not offers for offers in of_nodes.values())
    return GpuOffers(live, possible, unknown, visible=nodes is not None)


def usable_offers(
    nodes: Sequence[NodeView] | None, pod: Manifest, spec: Spec, settings: Settings, needs: GpuNeeds
) -> GpuOffers:
    suiting = _suiting(nodes, pod)
    old = {node.name: driver for node in suiting if (driver := needs.too_old(node.labels))}
    recent = None if nodes is None else [node for node in nodes if node.name not in old]
    parallelism, on, data = spec.parallelism, spec.parallelism.nodes or 1, spec.parallelism.data or 1
    groups = data if data > 1 else parallelism.pipeline or on
    asked = -(-(parallelism.tensor or 1) * groups // on)
    offers = gpu_offers(recent, pod, spec.hardware.gpu, settings, asked)
    kinds = sorted({offer.kind for offer in offers.possible if not needs.can_run_on(offer.capability)})
    excluded = [
        f"Node `{name}` has driver {driver}, and the image's CUDA {needs.cuda} needs {needs.driver} or newer."
        f" {needs.older_drivers}"
        for name, driver in sorted(old.items())
    ]
    if kinds:
        least = f"{needs.capability[0]}.{needs.capability[1]}"
        problem = f"The image has no code for {', '.join(kinds)}: it needs compute capability {least}."
        excluded.append(f"{problem} {needs.older_gpus}")
    possible = tuple(offer for offer in offers.possible if needs.can_run_on(offer.capability))
    return replace(offers, possible=possible, excluded=tuple(excluded))


def unknown_kinds(settings: Settings) -> list[str]:
    """One message for each GPU kind of the settings that is unknown.

    Examples:
        >>> unknown_kinds(Settings(gpu_offers=("L4:4", "abacus:1")))
        ['INFERENCE_OPERATOR_GPU_OFFERS: `abacus:1` names no kind of GPU that is known; write for example `L4:4`']
    """
    offers = (text for text in settings.gpu_offers if declared_offer(text) is None)
    labels = (text for text in settings.gpu_node_labels if unknown_kind(text))
    problem = "names no kind of GPU that is known; write for example"
    return [
        *(f"{PREFIX}GPU_OFFERS: `{text}` {problem} `L4:4`" for text in offers),
        *(f"{PREFIX}GPU_NODE_LABELS: `{text}` {problem} `L4:example.com/gpu=l4`" for text in labels),
    ]


def room_for(nodes: Sequence[NodeView], pod: Manifest, plan: Plan) -> int:
    """Engines of this plan that the nodes have GPUs for, if nothing else runs on them.

    Each pod of an engine is on another node, and a node may have pods of several engines.
    """
    amount, members = plan.gpus_per_pod, plan.parallel.nodes
    if not amount:
        return 0
    return engines_in((node.count(plan.resource) // amount for node in nodes if schedulable_now(node, pod)), members)


def gpus_by_kind(nodes: Sequence[NodeView], added: Sequence[str] = ()) -> Mapping[str, int]:
    """The GPUs of all nodes that take pods, whether a pod has them or not; a shared GPU counts as its shares."""
    gpus: Counter[str] = Counter()
    for node in nodes:
        if node.ready and not node.unschedulable:
            offers = offers_of_node(node.labels, node.allocatable, added)
            for offer in offers:
                gpus[offer.kind] += offer.per_node
            if not offers:
                gpus[UNKNOWN_KIND] += node.count(GPU_RESOURCE)
    return {kind: count for kind, count in gpus.items() if count}


def has_gpus(node: NodeView) -> bool:
    """Whether a node has GPUs, also while it reports none: its device plugin may be starting anew."""
    return any(is_gpu(name) for name in node.allocatable)


def _suiting(nodes: Sequence[NodeView] | None, pod: Manifest) -> Sequence[NodeView]:
    return [
        node
        for node in nodes or ()
        if matches_node(node, pod) and any(is_gpu(name) and node.count(name) for name in node.allocatable)
    ]


def _of_node(node: NodeView, hinted: Sequence[GpuOffer], added: Sequence[str]) -> Sequence[GpuOffer]:
    """The offers of a node. If no label names the kind of its GPUs, the only kind that the spec names."""
    offers = offers_of_node(node.labels, node.allocatable, added)
    count = node.count(GPU_RESOURCE)
    return offers or ([replace(hinted[0], per_node=count, labelled=False)] if count and len(hinted) == 1 else [])


def _limited(offer: GpuOffer, live: Sequence[GpuOffer], *, fixed: bool) -> GpuOffer:
    """The offer with the nodes that one engine can have: those with the same GPUs, and as many or more of them.

    Where nodes may come, an engine has more of them only if somebody names the number of nodes, or the kind.
    """
    alike = (other for other in live if _names(other) == _names(offer))
    nodes = sum(other.nodes for other in alike if other.per_node >= offer.per_node)
    return replace(offer, fixed_nodes=nodes) if fixed else replace(offer, chosen_nodes=nodes)


def _names(offer: GpuOffer) -> tuple[str, str, str, str]:
    return offer.kind, offer.product, offer.label, offer.resource


def _hinted(requested: GpuSpec, at_least: int) -> list[GpuOffer]:
    offers: dict[str, GpuOffer] = {}
    for name in requested.products:
        if (offer := offer_named(name)) is not None:
            usual = max(at_least, LINKED_PER_NODE if offer.linked else 1)
            counted = replace(offer, per_node=requested.per_node or usual)
            offers[offer.kind] = _with_resource(requested.resource_name, counted)
    return list(offers.values())


def _with_resource(resource: str | None, hinted: GpuOffer) -> GpuOffer:
    """An offer that the spec names, under its resource name; a MIG resource's product label names no profile."""
    if not hinted.slice:
        return replace(hinted, product="")
    return replace(hinted, resource=resource, product="") if resource else hinted


def _coming(declared: Sequence[GpuOffer], hinted: Iterable[GpuOffer], live: Sequence[GpuOffer]) -> Iterator[GpuOffer]:
    """Offers that no existing node makes: other kinds, or more GPUs on one node.

    A kind that exists gets the label of its nodes. Kinds of the spec count only if neither a node nor the settings
    have them.
    """
    known = {offer.kind: offer for offer in live}
    for offer in declared:
        there = known.get(offer.kind)
        if there is None:
            yield offer
        elif offer.per_node > max(other.per_node for other in live if other.kind == offer.kind):
            yield replace(offer, product=offer.product or there.product, label=there.label, labelled=there.labelled)
    kinds = known.keys() | {offer.kind for offer in declared}
    yield from (offer for offer in hinted if offer.kind not in kinds)
