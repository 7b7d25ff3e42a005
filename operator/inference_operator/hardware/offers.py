"""GPU offers: the GPUs of a node that one engine can use, from the node's labels and allocatable resources."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from inference_operator.hardware.kinds import GIB_OF_MIB, LOST_TO_CUDA, GpuKind, kind_named, kind_of_product
from inference_operator.hardware.node_labels import GKE, KIND_LABELS, PRODUCT, kind_of_labels
from inference_operator.hardware.resources import GPU_RESOURCE, MIG_RESOURCE, SHARED_RESOURCE, mig_resource
from inference_operator.quantity import value
from inference_operator.units import GIB

MIG_PRODUCT = re.compile(r"-MIG-(?P<profile>(?P<parts>\d)g\.(?P<memory>\d+)gb(?:\.me)?)$")
"""Suffix of the product label under the strategy `single` of GPU feature discovery."""
MIG_KIND = re.compile(
    r"(?P<whole>.+?)(?P<sign>-MIG-| )(?P<profile>(?P<parts>\d)g\.(?P<memory>\d+)gb(?:\.me)?)", re.IGNORECASE
)
"""A MIG slice as users name it: by its product, or by the name of its kind (`A100-80GB 1g.10gb`)."""
MIG_USABLE = 0.975
"""Usable fraction of the memory in a slice's name: 9.75 of 10 GB, 39.25 of 40 GB (NVIDIA MIG user guide, profiles)."""
MEMORY = "nvidia.com/gpu.memory"
MAJOR, MINOR = "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"
REPLICAS = "nvidia.com/gpu.replicas"
SHARING = "nvidia.com/gpu.sharing-strategy"
"""`none`, `time-slicing` or `mps` (NVIDIA/k8s-device-plugin 0.17, docs/gpu-feature-discovery/README.md)."""
MEMORY_SLACK = 0.08
"""Drivers report up to this fraction more or less memory for one kind; a larger difference means another variant."""
_GKE_VALUES = frozenset(value for labels in KIND_LABELS.values() for value in labels.gke)


@dataclass(frozen=True, slots=True)
class GpuOffer:
    kind: str
    """Name of the kind, with the profile of a MIG slice."""
    memory_gib: float
    """Memory of one GPU or slice, as CUDA reports it."""
    product: str = ""
    """The label value that selects these nodes; empty if unknown."""
    per_node: int = 1
    nodes: int = 1
    resource: str = GPU_RESOURCE
    capability: tuple[int, int] = (0, 0)
    bandwidth_gb_per_s: float = 0.0
    """0 if unknown, as the other speeds then are."""
    tflops: float = 0.0
    """Dense 16-bit tensor operations per second, in 10^12."""
    link_gb_per_s: float = 0.0
    """Bandwidth of one direction to another GPU of the node."""
    linked: bool = False
    slice: bool = False
    """Whether this is a MIG slice. Slices cannot communicate, so an engine has exactly one."""
    shared: bool = False
    """Whether several pods share the GPU; how much of its memory is free is unknown."""
    label: str = PRODUCT
    """The node label that holds the product."""
    price: float | None = None
    """Price of one GPU for an hour, in the currency of the settings."""
    labelled: bool = True
    """Whether labels of its nodes name the kind, or will; else only the spec names it."""
    chosen_nodes: int | None = None
    """Most nodes of an engine that sizing chooses by itself: those that exist; None where more of the kind may come."""
    fixed_nodes: int | None = None
    """Nodes with at least as many of these GPUs, where no more can come; None: more may come."""
    host_memory_gib: float = field(default=0.0, compare=False)
    """Memory that pods can request on each of the nodes: the least of them; 0 if unknown. Nodes that differ in it alone
    are equal."""

    @property
    def labels_of_kind(self) -> bool:
        """Whether any label that names the kind selects its nodes. No label tells slices or shared GPUs in advance."""
        return self.labelled and self.kind in KIND_LABELS and not (self.slice or self.shared)

    @property
    def most_in_a_group(self) -> int:
        return 1 if self.slice or self.shared else self.per_node

    def can_span(self, nodes: int, *, by_choice: bool = False) -> bool:
        """Whether one engine can have so many of these nodes. Parts of a GPU are for engines of one node.

        Args:
            by_choice: whether sizing chooses their number, and nobody requests it.
        """
        if nodes == 1:
            return True
        limits = (self.fixed_nodes, self.chosen_nodes if by_choice else None)
        return not (self.slice or self.shared) and all(limit is None or nodes <= limit for limit in limits)


def offer_of_kind(kind: GpuKind, *, per_node: int = 1, nodes: int = 1, price: float | None = None) -> GpuOffer:
    return GpuOffer(
        kind=kind.name,
        memory_gib=kind.memory_gib,
        per_node=per_node,
        nodes=nodes,
        capability=kind.capability,
        bandwidth_gb_per_s=kind.bandwidth_gb_per_s,
        tflops=kind.tflops,
        link_gb_per_s=kind.link_gb_per_s,
        linked=kind.linked,
        price=price,
    )


def offers_of_node(
    labels: Mapping[str, str], allocatable: Mapping[str, str], added: Sequence[str] = ()
) -> tuple[GpuOffer, ...]:
    """The offers of a node; several with mixed MIG profiles, none if neither kind nor memory is known."""
    product = labels.get(PRODUCT, "")
    kind = kind_of_product(product) if product else kind_of_labels(labels, added)
    offers = []
    for resource, amount in sorted(allocatable.items()):
        count = int(_number(amount))
        if not count:
            continue
        if resource in (GPU_RESOURCE, SHARED_RESOURCE):
            offers.append(_whole(labels, product, kind, resource, count))
        elif mig := MIG_RESOURCE.fullmatch(resource):
            offers.append(_slice(labels, kind, resource, count, mig))
    memory = float(value(allocatable.get("memory", "0"))) / GIB
    known = (replace(offer, host_memory_gib=memory) for offer in offers if offer is not None)
    if labels.get(PRODUCT):
        return tuple(known)
    return tuple(replace(offer, product=labels.get(GKE, ""), label=GKE) for offer in known)


def offer_named(name: str, *, per_node: int = 1, price: float | None = None) -> GpuOffer | None:
    """GPUs or MIG slices as a user names them; None for an unknown kind.

    A product label (`NVIDIA-L4`) also selects nodes; a kind (`L4`) does not.

    Examples:
        >>> offer_named("NVIDIA-L4").product, offer_named("L4").product, offer_named("abacus")
        ('NVIDIA-L4', '', None)
        >>> offer = offer_named("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", per_node=7)
        >>> offer.kind, offer.resource, offer.memory_gib, offer.most_in_a_group
        ('A100-80GB 1g.10gb', 'nvidia.com/gpu', 9.75, 1)
        >>> offer_named("a100 1g.10gb").resource
        'nvidia.com/mig-1g.10gb'
    """
    mig = MIG_KIND.fullmatch(name)
    kind = kind_named(mig["whole"] if mig else name)
    if kind is None:
        return None
    offer = offer_of_kind(kind, per_node=per_node, price=price)
    is_product = kind_of_product(name) is kind and name != kind.name
    if mig is None:
        return replace(offer, product=name) if is_product else offer
    labelled = mig["sign"] != " "
    resource = GPU_RESOURCE if labelled else mig_resource(mig["profile"])
    labels = {PRODUCT: name} if labelled else {}
    return replace(_slice(labels, kind, resource, per_node, mig), price=price)


def declared_offer(text: str) -> GpuOffer | None:
    """The offer in a setting of the form `NAME:COUNT[@PRICE]`; None for an unknown kind.

    Examples:
        >>> offer = declared_offer("NVIDIA-H100-80GB-HBM3:8@2.5")
        >>> offer.kind, offer.product, offer.per_node, offer.price
        ('H100-80GB', 'NVIDIA-H100-80GB-HBM3', 8, 2.5)
        >>> declared_offer("abacus:4") is None
        True
    """
    name, _, rest = text.strip().rpartition(":")
    count, _, price = rest.partition("@")
    if not count.isdecimal():
        return None
    return offer_named(name, per_node=int(count), price=float(price) if price else None)


def priced(offers: Iterable[GpuOffer], declared: Iterable[GpuOffer]) -> tuple[GpuOffer, ...]:
    prices = {offer.kind: offer.price for offer in declared}
    return tuple(replace(offer, price=prices.get(offer.kind)) for offer in offers)


def label_of(product: str) -> str:
    return GKE if product in _GKE_VALUES else PRODUCT


def merged(offers: Iterable[GpuOffer]) -> tuple[GpuOffer, ...]:
    """Equal offers added up, in an order that does not depend on the order of nodes."""
    counts: dict[GpuOffer, int] = {}
    memory: dict[GpuOffer, float] = {}
    for offer in offers:
        alone = replace(offer, nodes=1)
        counts[alone] = counts.get(alone, 0) + offer.nodes
        memory[alone] = min(memory.get(alone, offer.host_memory_gib), offer.host_memory_gib)
    counted = (replace(offer, nodes=nodes, host_memory_gib=memory[offer]) for offer, nodes in counts.items())
    return tuple(sorted(counted, key=attrgetter("memory_gib", "kind", "per_node", "product", "resource")))


def _whole(labels: Mapping[str, str], product: str, kind: GpuKind | None, resource: str, count: int) -> GpuOffer | None:
    if mig := MIG_PRODUCT.search(product):
        return _slice(labels, kind, resource, count, mig)
    reported = _number(labels.get(MEMORY, "")) * LOST_TO_CUDA / GIB_OF_MIB
    agrees = kind is not None and (not reported or abs(reported / kind.memory_gib - 1) <= MEMORY_SLACK)
    memory = kind.memory_gib if kind and agrees else reported
    if not memory or "MIG-INVALID" in product:
        return None
    replicas = max(1, int(_number(labels.get(REPLICAS, ""))))
    sharing = labels.get(SHARING, "none") != "none"
    shared = resource == SHARED_RESOURCE or product.endswith("-SHARED") or replicas > 1 or sharing
    return replace(
        offer_of_kind(kind) if kind else GpuOffer(product, memory),
        product=product,
        memory_gib=memory,
        per_node=count,
        resource=resource,
        capability=_capability(labels, kind),
        shared=shared,
    )


def _slice(labels: Mapping[str, str], kind: GpuKind | None, resource: str, count: int, mig: re.Match[str]) -> GpuOffer:
    return GpuOffer(
        kind=f"{kind.name if kind else 'MIG'} {mig['profile'].lower()}",
        product=labels.get(PRODUCT, ""),
        memory_gib=round(int(mig["memory"]) * MIG_USABLE, 2),
        per_node=count,
        resource=resource,
        capability=_capability(labels, kind),
        bandwidth_gb_per_s=kind.bandwidth_gb_per_s * int(mig["parts"]) / MIG_PARTS if kind else 0.0,
        tflops=kind.tflops * int(mig["parts"]) / MIG_COMPUTE_PARTS if kind else 0.0,
        slice=True,
    )


MIG_PARTS = 8
"""Memory slices of a GPU (NVIDIA MIG user guide); profile 7g has all of them."""
MIG_COMPUTE_PARTS = 7
"""Compute slices of a GPU that MIG divides (NVIDIA MIG user guide)."""


def _capability(labels: Mapping[str, str], kind: GpuKind | None) -> tuple[int, int]:
    major, minor = labels.get(MAJOR, ""), labels.get(MINOR, "")
    if _NUMBER.fullmatch(major) and _NUMBER.fullmatch(minor):
        return int(major), int(minor)
    return kind.capability if kind else (0, 0)


_NUMBER = re.compile(r"[0-9]{1,9}")


def _number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else 0.0


def prices(declared: Iterable[str]) -> dict[str, float]:
    offers = [offer for text in declared if (offer := declared_offer(text)) is not None]
    return {offer.kind: offer.price for offer in offers if offer.price is not None}
