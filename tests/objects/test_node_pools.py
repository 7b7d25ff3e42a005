"""A pool without nodes can make a node for an engine: its labels at birth meet one of the engine's terms."""

from collections.abc import Sequence
from typing import Any

import pytest

from inference_operator.hardware.kinds import GPU_KINDS, kind_of_product
from inference_operator.hardware.node_labels import KIND_LABELS, PLATFORM_LABELS, alternatives, kind_of_labels
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.settings import Settings
from tests.testing.builders import ENGINES, inference_deployment, inputs
from tests.testing.node_pools import (
    G6,
    ND_H100,
    P4D,
    P4DE,
    P5,
    P5_SMALL,
    WELL_KNOWN,
    InstanceType,
    Launched,
    NodePool,
    Refused,
    provisioned,
)

MOST_TERMS = 8
"""Alternatives of a kind with one label of the settings; a user's own terms multiply them."""


def engine(kind: str, settings: Settings | None = None, **spec: Any) -> Manifest:  # noqa: ANN401 - any JSON
    """The pod of an engine for a kind of which no node exists."""
    raw = inference_deployment(hardware={"gpu": {"products": [kind]}}, **spec)
    found = outcome(inputs(raw, nodes=[], settings=settings or Settings())).desired[ENGINES]
    pod: Manifest = found["spec"]["template"]["spec"]
    return pod


POOLS: dict[str, tuple[str, Sequence[NodePool], str]] = {
    "Karpenter on AWS, beside cheaper GPUs of 24 GB": ("H100", [NodePool([G6, P5, P5_SMALL])], "p5.4xlarge"),
    "A100s of 80 GB beside those of 40 GB": ("A100-80GB", [NodePool([P4D, P4DE])], "p4de.24xlarge"),
    "Azure, which names only the instance type": ("H100", [NodePool([ND_H100], {}, WELL_KNOWN)], ND_H100.name),
    "a pool whose template has the label of GPU feature discovery": (
        "H100",
        [NodePool([InstanceType("own", 8, 1.0)], {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, WELL_KNOWN)],
        "own",
    ),
    "GKE": (
        "L4",
        [NodePool([InstanceType("n1", 8, 1.0)], {"cloud.google.com/gke-accelerator": "nvidia-l4"}, WELL_KNOWN)],
        "n1",
    ),
    "CoreWeave": (
        "H100",
        [NodePool([InstanceType("x", 8, 1.0)], {"gpu.nvidia.com/class": "H100_NVLINK_80GB"}, WELL_KNOWN)],
        "x",
    ),
}


@pytest.mark.parametrize("platform", POOLS)
def test_a_pool_without_nodes_makes_a_node_for_an_engine(platform: str) -> None:
    kind, pools, machine = POOLS[platform]
    found = provisioned(engine(kind), pools)
    assert isinstance(found, Launched), found
    assert found.type.name == machine


def test_a_pool_of_another_gpu_makes_no_node() -> None:
    pools = [NodePool([G6, P4D])]
    found = provisioned(engine("H100"), pools)
    assert isinstance(found, Refused)
    assert found.causes[0] == "no known values: nvidia.com/gpu.product"
    assert len(found.causes) == len(alternatives("H100-80GB", {}))


def test_the_label_of_gpu_feature_discovery_alone_gets_no_node_from_an_empty_pool() -> None:
    """The constraint that engines had before."""
    pod = {**engine("H100"), "affinity": {}, "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}
    assert provisioned(pod, [NodePool([P5])]) == Refused(["no known values: nvidia.com/gpu.product"])


def test_a_label_of_the_settings_lets_an_unknown_platform_make_a_node() -> None:
    pools = [NodePool([InstanceType("metal", 8, 1.0)], {"example.com/gpu": "big"}, WELL_KNOWN)]
    assert isinstance(provisioned(engine("H100"), pools), Refused)
    told = engine("H100", Settings(gpu_node_labels=("H100:example.com/gpu=big",)))
    assert isinstance(provisioned(told, pools), Launched)


def test_the_users_node_selector_still_limits_the_pools() -> None:
    mine, other = NodePool([P5], {"team": "mine"}), NodePool([P5_SMALL], {"team": "other"})
    found = provisioned(engine("H100", scheduling={"nodeSelector": {"team": "mine"}}), [other, mine])
    assert isinstance(found, Launched)
    assert found.type == P5


def test_every_kind_has_a_row_in_the_table_of_node_labels() -> None:
    assert {kind.name for kind in GPU_KINDS} == set(KIND_LABELS)


@pytest.mark.parametrize("kind", KIND_LABELS)
def test_every_product_in_the_table_of_node_labels_is_of_its_kind(kind: str) -> None:
    for product in KIND_LABELS[kind].products:
        found = kind_of_product(product)
        assert found is not None
        assert found.name == kind


def test_no_label_value_names_two_kinds() -> None:
    seen = [
        (label, value, *(one["karpenter.k8s.aws/instance-gpu-memory"] if "karpenter" in label else ()))
        for kind in KIND_LABELS
        for one in alternatives(kind, {})
        for label, values in one.items()
        for value in values
        if not label.endswith("gpu-memory")
    ]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("kind", KIND_LABELS)
def test_the_alternatives_of_a_kind_are_few_and_begin_with_the_label_of_existing_nodes(kind: str) -> None:
    found = alternatives(kind, {"nvidia.com/gpu.product": "ObservedJobs"}, [f"{kind}:example.com/gpu=x"])
    assert len(found) < MOST_TERMS
    assert "ObservedJobs" in found[0]["nvidia.com/gpu.product"]
    assert list(found[1]) == ["example.com/gpu"]
    assert all(one.keys() & PLATFORM_LABELS for one in found[2:])


def test_a_setting_names_a_kind_by_karpenters_label_of_the_gpu_without_its_memory() -> None:
    given = ["H100-NVL:karpenter.k8s.aws/instance-gpu-name=h100nvl"]
    memory = {"karpenter.k8s.aws/instance-gpu-memory": "95830"}
    found = kind_of_labels({"karpenter.k8s.aws/instance-gpu-name": "h100nvl", **memory}, given)
    assert found is not None
    assert found.name == "H100-NVL"
    known = kind_of_labels(
        {"karpenter.k8s.aws/instance-gpu-name": "a100", "karpenter.k8s.aws/instance-gpu-memory": "40960"}
    )
    assert known is not None
    assert known.name == "A100-40GB"


@pytest.mark.parametrize(("operator", "bound", "made"), [("Gt", "40000", True), ("Lt", "40000", False)])
def test_the_provisioner_compares_labels_with_integers(operator: str, bound: str, *, made: bool) -> None:
    term = {
        "matchExpressions": [{"key": "karpenter.k8s.aws/instance-gpu-memory", "operator": operator, "values": [bound]}]
    }
    nodes = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod: Manifest = {"affinity": {"nodeAffinity": nodes}}
    assert isinstance(provisioned(pod, [NodePool([P5])]), Launched) is made
