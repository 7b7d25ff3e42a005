"""Node pools without nodes, and a provisioner that follows Karpenter's rule about the labels of a pending pod.

The rule (kubernetes-sigs/karpenter v1.14.0, `pkg/scheduling/requirements.go`, `Compatible` and `Intersects`;
`pkg/controllers/provisioning/scheduling/preferences.go`, `removeRequiredNodeAffinityTerm`):

- The node selector and the first required term of node affinity count.
- A label that is neither well known nor a label of the pool is refused, unless the pod excludes it.
- Of the instance types that have the labels and enough GPUs, the cheapest is launched.
- If no pool can meet the term, the term is dropped and the next one is tried. The last one is not dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inference_operator.manifest import Manifest
from inference_operator.views.node import requested_amount

GPU = "nvidia.com/gpu"
WELL_KNOWN = frozenset(
    {
        "node.kubernetes.io/instance-type",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "karpenter.sh/nodepool",
        "karpenter.sh/capacity-type",
    }
)
"""kubernetes-sigs/karpenter v1.14.0, `pkg/apis/v1/labels.go`, `WellKnownLabels`."""
AWS_WELL_KNOWN = frozenset(
    f"karpenter.k8s.aws/instance-gpu-{part}" for part in ("name", "count", "memory", "manufacturer")
)
"""Those of them about GPUs that aws/karpenter-provider-aws v1.14.1 adds, `pkg/apis/v1/labels.go`."""


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A machine that a pool can have."""

    name: str
    gpus: int
    price: float
    labels: Mapping[str, str] = field(default_factory=dict)


def aws(name: str, gpu: str, gpus: int, memory: int, price: float) -> InstanceType:
    """An instance type with the labels of Karpenter on AWS."""
    told = {"name": gpu, "count": str(gpus), "memory": str(memory)}
    labels = {f"karpenter.k8s.aws/instance-gpu-{part}": value for part, value in told.items()}
    return InstanceType(name, gpus, price, labels)


G6 = aws("g6.xlarge", "l4", 1, 22888, 0.8)
P4D = aws("p4d.24xlarge", "a100", 8, 40960, 22.0)
P4DE = aws("p4de.24xlarge", "a100", 8, 81920, 27.4)
P5_SMALL = aws("p5.4xlarge", "h100", 1, 81920, 6.9)
P5 = aws("p5.48xlarge", "h100", 8, 81920, 55.0)
ND_H100 = InstanceType("Standard_ND96isr_H100_v5", 8, 98.0)


@dataclass(frozen=True, slots=True)
class NodePool:
    """A pool, which has no node yet."""

    types: Sequence[InstanceType]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its template."""
    well_known: frozenset[str] = WELL_KNOWN | AWS_WELL_KNOWN


@dataclass(frozen=True, slots=True)
class Launched:
    """A machine to launch."""

    type: InstanceType
    labels: Mapping[str, str]
    """The labels of the node at its start."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why no pool makes a node, one line for each term."""

    causes: Sequence[str]


def provisioned(pod: Manifest, pools: Sequence[NodePool]) -> Launched | Refused:
    """The machine for a pending pod of this specification."""
    nodes = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or [{}]
    selected = [
        {"key": key, "operator": "In", "values": [value]} for key, value in (pod.get("nodeSelector") or {}).items()
    ]
    causes = []
    for term in terms:
        requirements = [*selected, *term.get("matchExpressions", [])]
        fitting = [one for pool in pools for one in _fitting(pool, requirements, requested_amount(pod, GPU))]
        if fitting:
            return min(fitting, key=lambda one: one.type.price)
        unknown = {e["key"] for e in requirements for pool in pools if not _known(pool, e)}
        causes.append(f"no known values: {', '.join(sorted(unknown))}" if unknown else "no instance type")
    return Refused(causes)


def _fitting(pool: NodePool, requirements: Sequence[Manifest], gpus: int) -> Iterator[Launched]:
    if not all(_known(pool, one) for one in requirements):
        return
    for machine in pool.types:
        labels = {**machine.labels, **pool.labels, "node.kubernetes.io/instance-type": machine.name}
        if machine.gpus >= gpus and all(_met(labels, one) for one in requirements):
            yield Launched(machine, labels)


def _known(pool: NodePool, requirement: Manifest) -> bool:
    key, operator = requirement["key"], requirement["operator"]
    return key in pool.well_known or key in pool.labels or operator in ("NotIn", "DoesNotExist")


def _met(labels: Mapping[str, str], requirement: Manifest) -> bool:
    value = labels.get(requirement["key"])
    match requirement["operator"]:
        case "In":
            return value in requirement["values"]
        case "NotIn":
            return value not in requirement["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return value is not None and _in_order(operator, int(value), int(requirement["values"][0]))
        case other:
            raise NotImplementedError(other)


def _in_order(operator: str, value: int, bound: int) -> bool:
    """Kubernetes' comparison of a label with an integer."""
    return value > bound if operator == "Gt" else value < bound
