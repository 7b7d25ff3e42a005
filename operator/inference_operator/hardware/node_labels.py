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

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from inference_operator.hardware.kinds import GPU_KINDS, GpuKind, kind_named
from inference_operator.text_tables import text_of

PRODUCT = "nvidia.com/gpu.product"
AWS_NAME, AWS_MEMORY = "karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-memory"
"""Labels of nodes of Karpenter on AWS. `instance-gpu-count` is not used: the pod's request for GPUs decides it."""
GKE = "cloud.google.com/gke-accelerator"
COREWEAVE = "gpu.nvidia.com/class"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
PLATFORM_LABELS = frozenset({AWS_NAME, GKE, COREWEAVE, INSTANCE_TYPE})
"""Labels that a node has from its start."""


@dataclass(frozen=True, slots=True)
class KindLabels:
    products: tuple[str, ...]
    aws: tuple[str, int] | None = None
    gke: tuple[str, ...] = ()
    coreweave: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()


def _kind_labels(table: str) -> Iterator[tuple[str, KindLabels]]:
    for kind in re.split(r"\n(?=\S)", table):
        name, *lines = kind.splitlines()
        values: dict[str, tuple[str, ...]] = {}
        for field, *more in map(str.split, lines):
            values[field] = (*values.get(field, ()), *more)
        aws_name, memory = values.pop("aws", ("", "0"))
        yield name, KindLabels(aws=(aws_name, int(memory)) if aws_name else None, **values)


KIND_LABELS: Mapping[str, KindLabels] = dict(_kind_labels(text_of(__package__, "node-labels.txt")))
Alternative: TypeAlias = Mapping[str, tuple[str, ...]]
"""The values that each label may have. All labels must match."""


def alternatives(kind: str, observed: Mapping[str, str], added: Sequence[str] = ()) -> Sequence[Alternative]:
    """The ways by which the labels of a node may name a kind, in the order in which an autoscaler should try them.

    Karpenter uses the first alternative and drops it if neither a node nor a pool can meet it
    (kubernetes-sigs/karpenter v1.14.0, `pkg/controllers/provisioning/scheduling/preferences.go`,
    `removeRequiredNodeAffinityTerm`). So the label of existing nodes comes first: they are used before new ones. The
    labels of the settings follow, then those of platforms, and the instance type last.

    Args:
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
