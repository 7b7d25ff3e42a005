"""Table of the node labels that name the kind of a node's GPUs, and the alternatives by which a pod selects a kind.

GPU feature discovery labels a node after its start. A node pool without nodes, and a node that has just started, have
only the labels of their platform. So a pod that needs a kind of GPU accepts any of them.

Sources:

- `products`: values of `nvidia.com/gpu.product`, the name that NVML reports (NVIDIA/k8s-device-plugin 0.18,
  `internal/lm/resource.go`), as public node listings show them.
- `aws`: name and MiB of one GPU (aws/karpenter-provider-aws, `website/content/en/docs/reference/instance-types.md` of
  2026-08). The memory distinguishes A100s of 40 and 80 GB, and a whole L4 from the parts of one in `g6f`.
- `gke`: Google Kubernetes Engine documentation, "About GPUs in GKE".
- `coreweave`: values of `gpu.nvidia.com/class` (CoreWeave documentation, "Advanced Label Selectors";
  skypilot-org/skypilot, `sky/provision/kubernetes/utils.py`, `CoreWeaveLabelFormatter`).
- `instances`: values of `node.kubernetes.io/instance-type`: Amazon EC2 (the file above), Google Compute Engine ("GPU
  machine types"), Azure ("GPU accelerated VM sizes"; AKS and Azure's Karpenter name the kind by nothing else),
  CoreWeave ("Instances"). Types with a part of a GPU are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from inference_operator.hardware.kinds import GPU_KINDS, GpuKind, kind_named

PRODUCT = "nvidia.com/gpu.product"
"""Label of NVIDIA's GPU feature discovery."""
AWS_NAME, AWS_MEMORY = "karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-memory"
"""Labels of nodes of Karpenter on AWS. `instance-gpu-count` is not used: the pod's request for GPUs decides it."""
GKE = "cloud.google.com/gke-accelerator"
COREWEAVE = "gpu.nvidia.com/class"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
PLATFORM_LABELS = frozenset({AWS_NAME, GKE, COREWEAVE, INSTANCE_TYPE})
"""Labels that a node has from its start."""


@dataclass(frozen=True, slots=True)
class KindLabels:
    """The labels that name one kind."""

    products: tuple[str, ...]
    aws: tuple[str, int] | None = None
    gke: tuple[str, ...] = ()
    coreweave: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()


def _sizes(form: str, sizes: str) -> tuple[str, ...]:
    return tuple(form.format(size) for size in sizes.split())


_G_SIZES = "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"
_EIGHTH_TO_WHOLE = "1g 2g 4g 8g"

KIND_LABELS: Mapping[str, KindLabels] = {
    "T4": KindLabels(
        ("Tesla-T4", "NVIDIA-T4"),
        aws=("t4", 16384),
        gke=("nvidia-tesla-t4",),
        instances=(
            *_sizes("g4dn.{}", "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge metal"),
            *_sizes("Standard_NC{}as_T4_v3", "4 8 16 64"),
        ),
    ),
    "V100-16GB": KindLabels(
        ("Tesla-V100-SXM2-16GB", "Tesla-V100-PCIE-16GB"),
        gke=("nvidia-tesla-v100",),
        instances=(*_sizes("p3.{}", "2xlarge 8xlarge 16xlarge"), *_sizes("Standard_NC{}_v3", "6s 12s 24s 24rs")),
    ),
    "V100-32GB": KindLabels(
        ("Tesla-V100-SXM2-32GB", "Tesla-V100-SXM3-32GB", "Tesla-V100-PCIE-32GB"),
        aws=("v100", 32768),
        instances=("p3dn.24xlarge", "Standard_ND40rs_v2"),
    ),
    "A2": KindLabels(("NVIDIA-A2",)),
    "A10": KindLabels(
        ("NVIDIA-A10",),
        instances=("Standard_NV36ads_A10_v5", "Standard_NV36adms_A10_v5", "Standard_NV72ads_A10_v5"),
    ),
    "A10G": KindLabels(("NVIDIA-A10G",), aws=("a10g", 22888), instances=_sizes("g5.{}", _G_SIZES)),
    "A16": KindLabels(("NVIDIA-A16",)),
    "A30": KindLabels(("NVIDIA-A30",)),
    "A40": KindLabels(("NVIDIA-A40",), coreweave=("A40",)),
    "A100-40GB": KindLabels(
        ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB", "A100-SXM4-40GB", "A100-PCIE-40GB"),
        aws=("a100", 40960),
        gke=("nvidia-tesla-a100",),
        coreweave=("A100_PCIE_40GB",),
        instances=(
            "p4d.24xlarge",
            *_sizes("a2-highgpu-{}", _EIGHTH_TO_WHOLE),
            "a2-megagpu-16g",
            "Standard_ND96asr_v4",
        ),
    ),
    "A100-80GB": KindLabels(
        ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe", "A100-SXM4-80GB", "A100-80GB-PCIe"),
        aws=("a100", 81920),
        gke=("nvidia-a100-80gb",),
        coreweave=("A100_NVLINK_80GB", "A100_PCIE_80GB"),
        instances=(
            "p4de.24xlarge",
            *_sizes("a2-ultragpu-{}", _EIGHTH_TO_WHOLE),
            *_sizes("Standard_NC{}ads_A100_v4", "24 48 96"),
            "Standard_ND96amsr_A100_v4",
        ),
    ),
    "RTX-A5000": KindLabels(("NVIDIA-RTX-A5000",)),
    "RTX-A6000": KindLabels(("NVIDIA-RTX-A6000",), coreweave=("RTX_A6000",)),
    "RTX-3090": KindLabels(("NVIDIA-GeForce-RTX-3090", "NVIDIA-GeForce-RTX-3090-Ti")),
    "RTX-4060": KindLabels(("NVIDIA-GeForce-RTX-4060",)),
    "RTX-4090": KindLabels(("NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-4090-D")),
    "RTX-5090": KindLabels(("NVIDIA-GeForce-RTX-5090", "NVIDIA-GeForce-RTX-5090-D")),
    "L4": KindLabels(
        ("NVIDIA-L4",),
        aws=("l4", 22888),
        gke=("nvidia-l4",),
        instances=(
            *_sizes("g6.{}", _G_SIZES),
            *_sizes("gr6.{}", "4xlarge 8xlarge"),
            *_sizes("g2-standard-{}", "4 8 12 16 24 32 48 96"),
        ),
    ),
    "L20": KindLabels(("NVIDIA-L20",)),
    "L40": KindLabels(("NVIDIA-L40",), coreweave=("L40",)),
    "L40S": KindLabels(
        ("NVIDIA-L40S",), aws=("l40s", 45776), coreweave=("L40S",), instances=_sizes("g6e.{}", _G_SIZES)
    ),
    "RTX-6000-Ada": KindLabels(("NVIDIA-RTX-6000-Ada-Generation",)),
    "H20": KindLabels(("NVIDIA-H20",)),
    "H100-PCIe": KindLabels(("NVIDIA-H100-PCIe",)),
    "H100-NVL": KindLabels(("NVIDIA-H100-NVL",), instances=("Standard_NC40ads_H100_v5", "Standard_NC80adis_H100_v5")),
    "H100-80GB": KindLabels(
        ("NVIDIA-H100-80GB-HBM3",),
        aws=("h100", 81920),
        gke=("nvidia-h100-80gb", "nvidia-h100-mega-80gb"),
        coreweave=("H100", "H100_NVLINK_80GB"),
        instances=(
            *_sizes("p5.{}", "4xlarge 48xlarge"),
            *_sizes("a3-highgpu-{}", _EIGHTH_TO_WHOLE),
            *_sizes("a3-{}gpu-8g", "edge mega"),
            *_sizes("Standard_ND96{}_H100_v5", "is isr"),
            "gd-8xh100ib-i128",
        ),
    ),
    "H200": KindLabels(
        ("NVIDIA-H200", "NVIDIA-H200-NVL"),
        aws=("h200", 144384),
        gke=("nvidia-h200-141gb",),
        coreweave=("H200",),
        instances=(*_sizes("{}.48xlarge", "p5e p5en"), "a3-ultragpu-8g", "Standard_ND96isr_H200_v5"),
    ),
    "H800": KindLabels(("NVIDIA-H800",)),
    "GH200": KindLabels(("NVIDIA-GH200-480GB",), coreweave=("GH200",)),
    "B200": KindLabels(
        ("NVIDIA-B200",),
        aws=("b200", 183359),
        gke=("nvidia-b200",),
        coreweave=("B200",),
        instances=("p6-b200.48xlarge", "a4-highgpu-8g"),
    ),
    "GB200": KindLabels(
        ("NVIDIA-GB200",), gke=("nvidia-gb200",), coreweave=("GB200",), instances=("a4x-highgpu-4g", "gb200-4x")
    ),
    "B300": KindLabels(("NVIDIA-B300-SXM6-AC",), aws=("b300", 275040), instances=("p6-b300.48xlarge",)),
    "RTX-PRO-6000": KindLabels(
        (
            "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
            "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
            "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
        ),
        aws=("rtx-pro-server-6000", 98304),
        gke=("nvidia-rtx-pro-6000",),
        instances=(
            *_sizes("g7e.{}", "2xlarge 4xlarge 8xlarge 12xlarge 24xlarge 48xlarge"),
            *_sizes("g4-standard-{}", "48 96 192 384"),
        ),
    ),
}
"""Labels of every kind in `kinds.GPU_KINDS`."""

Alternative: TypeAlias = Mapping[str, tuple[str, ...]]
"""The values that each label may have. All labels must match."""


def alternatives(kind: str, observed: Mapping[str, str], added: Sequence[str] = ()) -> Sequence[Alternative]:
    """The ways by which the labels of a node may name a kind, in the order in which an autoscaler should try them.

    Karpenter uses the first alternative and drops it if neither a node nor a pool can meet it
    (kubernetes-sigs/karpenter v1.14.0, `pkg/controllers/provisioning/scheduling/preferences.go`,
    `removeRequiredNodeAffinityTerm`). So the label of existing nodes comes first: they are used before new ones. The
    labels of the settings follow, then those of platforms, and the instance type last.

    Args:
        kind: a name in the table of kinds.
        observed: the label by which nodes of this kind were found.
        added: labels of the settings, as `KIND:LABEL=VALUE`.
    """
    known = KIND_LABELS.get(kind) or KindLabels(())
    platforms = {GKE: known.gke, COREWEAVE: known.coreweave, INSTANCE_TYPE: known.instances}
    more: dict[str, tuple[str, ...]] = {label: (value,) for label, value in observed.items()}
    for label, value in _added(added).get(kind, ()):
        more[label] = (*more.get(label, ()), value)
    own = {label: values for label, values in more.items() if label not in (PRODUCT, *platforms)}
    aws: Alternative = {AWS_NAME: (known.aws[0],), AWS_MEMORY: (str(known.aws[1]),)} if known.aws else {}
    choices: list[Alternative] = [
        {PRODUCT: _united(known.products, more.get(PRODUCT, ()))},
        *({label: values} for label, values in own.items()),
        aws,
        *({label: _united(values, more.get(label, ()))} for label, values in platforms.items()),
    ]
    return [alternative for alternative in choices if alternative and all(alternative.values())]


def kind_of_labels(labels: Mapping[str, str], added: Sequence[str] = ()) -> GpuKind | None:
    kinds = _kinds_by_label(tuple(added))
    own = (label for given in _added(added).values() for label, _ in given)
    keys = (
        (label, labels.get(label, ""), memory)
        for label in (*own, AWS_NAME, GKE, COREWEAVE, INSTANCE_TYPE)
        # A label of the settings counts without the memory, after what the table says with it.
        for memory in ((labels.get(AWS_MEMORY, ""), "") if label == AWS_NAME else ("",))
    )
    return next((kinds[key] for key in keys if key in kinds), None)


def unknown_kind(added: str) -> bool:
    """Whether a label of the settings is for a kind that the table of kinds does not have.

    Examples:
        >>> unknown_kind("L4:example.com/gpu=l4"), unknown_kind("abacus:example.com/gpu=abacus")
        (False, True)
    """
    return not _added([added])


def _united(*values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for some in values for value in some))


def _added(added: Sequence[str]) -> Mapping[str, Sequence[tuple[str, str]]]:
    labels: dict[str, list[tuple[str, str]]] = {}
    for text in added:
        name, _, node_label = text.partition(":")
        label, _, value = node_label.partition("=")
        if kind := kind_named(name):
            labels.setdefault(kind.name, []).append((label, value))
    return labels


@lru_cache(maxsize=8)
def _kinds_by_label(added: tuple[str, ...]) -> Mapping[tuple[str, str, str], GpuKind]:
    """Kinds by label, value, and for Karpenter's name also the memory."""
    kinds: dict[tuple[str, str, str], GpuKind] = {}
    for kind in (kind for kind in GPU_KINDS if kind.name in {*KIND_LABELS, *_added(added)}):
        for alternative in alternatives(kind.name, {}, added):
            (label, values), *memory = alternative.items()
            kinds |= {(label, value, memory[0][1][0] if memory else ""): kind for value in values}
    return kinds
