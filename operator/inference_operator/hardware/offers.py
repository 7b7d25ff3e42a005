"""What nodes offer, from their labels and allocatable resources: GPUs that an engine could have."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from inference_operator.hardware.kinds import GIB_OF_MIB, LOST_TO_CUDA, GpuKind, kind_of_product

GPU_RESOURCE = "nvidia.com/gpu"
SHARED_RESOURCE = "nvidia.com/gpu.shared"
MIG_RESOURCE = re.compile(r"nvidia\.com/mig-(?P<profile>(?P<parts>\d)g\.(?P<memory>\d+)gb(?:\.me)?)")
"""One resource for each profile under the strategy `mixed` (NVIDIA/k8s-device-plugin 0.18, README)."""
MIG_PRODUCT = re.compile(r"-MIG-(?P<profile>(?P<parts>\d)g\.(?P<memory>\d+)gb(?:\.me)?)$")
"""What GPU feature discovery appends under the strategy `single`."""
MIG_USABLE = 0.975
"""A slice's usable part of the memory in its name: 9.75 of 10 GB, 39.25 of 40 GB (NVIDIA MIG user guide, profiles)."""
PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
MAJOR, MINOR = "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"
REPLICAS, STRATEGY = "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"
MEMORY_SLACK = 0.08
"""Drivers differ this much in the memory they report for one kind; what differs more is another variant of it."""
GKE = "cloud.google.com/gke-accelerator"
_GKE_PRODUCTS = {
    "nvidia-tesla-t4": "Tesla-T4",
    "nvidia-tesla-v100": "Tesla-V100-SXM2-16GB",
    "nvidia-tesla-a100": "NVIDIA-A100-SXM4-40GB",
    "nvidia-a100-80gb": "NVIDIA-A100-SXM4-80GB",
    "nvidia-l4": "NVIDIA-L4",
    "nvidia-h100-80gb": "NVIDIA-H100-80GB-HBM3",
    "nvidia-h100-mega-80gb": "NVIDIA-H100-80GB-HBM3",
    "nvidia-h200-141gb": "NVIDIA-H200",
    "nvidia-b200": "NVIDIA-B200",
    "nvidia-gb200": "NVIDIA-GB200",
}
"""Google's label for the product (Google Kubernetes Engine documentation, "GPUs in GKE")."""


@dataclass(frozen=True, slots=True)
class GpuOffer:
    """Equal GPUs of equal nodes."""

    kind: str
    """Name of the kind; a slice of one has its profile appended."""
    product: str
    """What a node selector for these nodes matches; empty where nodes have no such label."""
    memory_gib: float
    """Of one GPU (or slice), as CUDA reports it."""
    per_node: int
    nodes: int
    resource: str
    capability: tuple[int, int]
    bandwidth_gb_per_s: float = 0.0
    linked: bool = False
    slice: bool = False
    """A MIG slice: slices do not talk to each other, so an engine has exactly one."""
    shared: bool = False
    """Others use the same GPU at the same time; how much of its memory is free nobody knows."""
    price: float | None = None
    """Of one GPU for an hour, in the currency of the settings."""

    @property
    def most_in_a_group(self) -> int:
        """GPUs that one engine can span."""
        return 1 if self.slice or self.shared else self.per_node


def offer_of_kind(kind: GpuKind, *, per_node: int = 1, nodes: int = 1, price: float | None = None) -> GpuOffer:
    """An offer that a user or a setting declares.

    Examples:
        >>> from inference_operator.hardware.kinds import kind_named
        >>> offer_of_kind(kind_named("L4"), per_node=4).most_in_a_group
        4
    """
    return GpuOffer(
        kind=kind.name,
        product="",
        memory_gib=kind.memory_gib,
        per_node=per_node,
        nodes=nodes,
        resource=GPU_RESOURCE,
        capability=kind.capability,
        bandwidth_gb_per_s=kind.bandwidth_gb_per_s,
        linked=kind.linked,
        price=price,
    )


def offers_of_node(labels: Mapping[str, str], allocatable: Mapping[str, str]) -> tuple[GpuOffer, ...]:
    """What one node offers; several where MIG profiles are mixed. Nothing where no kind or memory can be told.

    Examples:
        >>> labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
        >>> [(one.kind, one.per_node, one.memory_gib) for one in offers_of_node(labels, {"nvidia.com/gpu": "8"})]
        [('H100-80GB', 8, 79.18)]
        >>> [one.kind for one in offers_of_node(labels, {"nvidia.com/mig-3g.40gb": "2"})]
        ['H100-80GB 3g.40gb']
    """
    product = labels.get(PRODUCT, "") or _GKE_PRODUCTS.get(labels.get(GKE, ""), "")
    kind = kind_of_product(product)
    found = []
    for resource, amount in sorted(allocatable.items()):
        count = int(_number(amount))
        if not count:
            continue
        if resource in (GPU_RESOURCE, SHARED_RESOURCE):
            found.append(_whole(labels, product, kind, resource, count))
        elif mig := MIG_RESOURCE.fullmatch(resource):
            found.append(_slice(labels, kind, resource, count, mig))
    return tuple(one for one in found if one is not None)


def merged(offers: Iterable[GpuOffer]) -> tuple[GpuOffer, ...]:
    """Equal offers counted together, in an order that does not depend on the nodes' order.

    Examples:
        >>> from inference_operator.hardware.kinds import kind_named
        >>> a, b = offer_of_kind(kind_named("L4")), offer_of_kind(kind_named("T4"))
        >>> [(one.kind, one.nodes) for one in merged([a, b, a])] == [(one.kind, one.nodes) for one in merged([a, a, b])]
        True
    """
    counts: dict[GpuOffer, int] = {}
    for one in offers:
        alone = replace(one, nodes=1)
        counts[alone] = counts.get(alone, 0) + one.nodes
    found = (replace(one, nodes=nodes) for one, nodes in counts.items())
    return tuple(sorted(found, key=lambda one: (one.memory_gib, one.kind, one.per_node, one.product, one.resource)))


def _whole(labels: Mapping[str, str], product: str, kind: GpuKind | None, resource: str, count: int) -> GpuOffer | None:
    if mig := MIG_PRODUCT.search(product):
        return _slice(labels, kind, resource, count, mig)
    reported = _number(labels.get(MEMORY, "")) * LOST_TO_CUDA / GIB_OF_MIB
    agrees = kind is not None and (not reported or abs(reported / kind.memory_gib - 1) <= MEMORY_SLACK)
    memory = kind.memory_gib if kind and agrees else reported
    if not memory or "MIG-INVALID" in product:
        return None
    replicas = max(1, int(_number(labels.get(REPLICAS, ""))))
    shared = resource == SHARED_RESOURCE or product.endswith("-SHARED") or replicas > 1
    return GpuOffer(
        kind=kind.name if kind else product,
        product=product if labels.get(PRODUCT) else "",
        memory_gib=memory,
        per_node=count,
        nodes=1,
        resource=resource,
        capability=_capability(labels, kind),
        bandwidth_gb_per_s=kind.bandwidth_gb_per_s if kind else 0.0,
        linked=bool(kind and kind.linked),
        shared=shared,
    )


def _slice(labels: Mapping[str, str], kind: GpuKind | None, resource: str, count: int, mig: re.Match[str]) -> GpuOffer:
    return GpuOffer(
        kind=f"{kind.name if kind else 'MIG'} {mig['profile']}",
        product=labels.get(PRODUCT, ""),
        memory_gib=round(int(mig["memory"]) * MIG_USABLE, 2),
        per_node=count,
        nodes=1,
        resource=resource,
        capability=_capability(labels, kind),
        bandwidth_gb_per_s=kind.bandwidth_gb_per_s * int(mig["parts"]) / MIG_PARTS if kind else 0.0,
        slice=True,
    )


MIG_PARTS = 8
"""Memory slices of a GPU (NVIDIA MIG user guide); 7g takes all of them."""


def _capability(labels: Mapping[str, str], kind: GpuKind | None) -> tuple[int, int]:
    major, minor = labels.get(MAJOR, ""), labels.get(MINOR, "")
    if _NUMBER.fullmatch(major) and _NUMBER.fullmatch(minor):
        return int(major), int(minor)
    return kind.capability if kind else (0, 0)


_NUMBER = re.compile(r"[0-9]{1,9}")


def _number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else 0.0
