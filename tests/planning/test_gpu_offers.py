"""The GPU offers that an engine may be sized for."""

from dataclasses import replace

import pytest

from inference_operator.api.hardware import GpuSpec
from inference_operator.manifest import Manifest
from inference_operator.planning.gpu_offers import GpuOffers, gpu_offers, gpus_by_kind, has_gpus, room_for
from inference_operator.settings import Capacity, Settings
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import SizingInputs
from inference_operator.views.node import NodeView, node_view
from tests.testing.nodes import node

L4 = {"nvidia.com/gpu.product": "NVIDIA-L4"}
ELASTIC = Settings()


def nodes(*manifests: Manifest) -> list[NodeView]:
    return [node_view(one) for one in manifests]


def offers(
    seen: list[NodeView] | None, settings: Settings = ELASTIC, pod: Manifest | None = None, **asked: object
) -> GpuOffers:
    return gpu_offers(seen, pod or {}, GpuSpec.model_validate(asked), settings)


def described(offered: GpuOffers) -> list[tuple[str, int, int, str]]:
    return [(offer.kind, offer.per_node, offer.nodes, offer.product) for offer in offered.possible]


def test_nodes_with_equal_gpus_give_a_single_offer() -> None:
    seen = nodes(node("a", gpus=8), node("b", gpus=8), node("c", gpus=4, labels=L4))
    assert described(offers(seen)) == [("L4", 4, 1, "NVIDIA-L4"), ("H100-80GB", 8, 2, "NVIDIA-H100-80GB-HBM3")]


def test_offers_include_cordoned_and_unready_nodes_that_match_the_pods_scheduling_fields() -> None:
    taint = {"key": "team", "value": "b", "effect": "NoSchedule"}
    passing = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    seen = nodes(
        node("a", gpus=8, taints=[taint]),
        node("b", gpus=8, labels={"pool": "x"}),
        node("c", gpus=4, labels={**L4, "pool": "y"}, taints=[passing], cordoned=True, ready=False),
    )
    assert described(offers(seen, pod={"nodeSelector": {"pool": "y"}})) == [("L4", 4, 1, "NVIDIA-L4")]
    tolerant: Manifest = {"tolerations": [{"key": "team", "operator": "Exists"}]}
    assert [one.nodes for one in offers(seen, pod=tolerant).live] == [1, 2]


def test_the_gpus_of_nodes_that_take_pods_are_counted_by_kind() -> None:
    seen = nodes(
        node("a", gpus=8),
        node("b", gpus=8, labels=L4),
        node("c", gpus=4, labels={"nvidia.com/gpu.product": ""}),
        node("d", gpus=4, labels={"nvidia.com/gpu.product": "", "example.com/gpu": "l4"}),
        node("e", gpus=8, cordoned=True),
        node("f", gpus=8, ready=False),
        node("g", gpus=8),
    )
    assert gpus_by_kind(seen, ["L4:example.com/gpu=l4"]) == {"H100-80GB": 16, "L4": 12, "unknown": 4}
    assert gpus_by_kind([]) == {}


def test_gpus_declared_in_settings_are_offered_although_no_node_has_them() -> None:
    declared = Settings(gpu_offers=("H100-80GB:8", "NVIDIA-L4:4"))
    assert described(offers([], declared)) == [("L4", 4, 1, "NVIDIA-L4"), ("H100-80GB", 8, 1, "")]
    assert described(offers(None, declared)) == described(offers([], declared))
    seen = nodes(node("a", gpus=4))
    larger = ("H100-80GB", 8, 1, "NVIDIA-H100-80GB-HBM3")
    assert larger in described(offers(seen, declared)), "of a kind that is there: with its label"
    assert described(offers(nodes(node("a", gpus=8)), Settings(gpu_offers=("H100-80GB:4",)))) == [larger]


def test_fixed_capacity_offers_only_gpus_of_existing_nodes() -> None:
    fixed = Settings(gpu_offers=("L4:4",), capacity=Capacity.FIXED)
    assert [one.kind for one in offers(nodes(node("a", gpus=8)), fixed, products=["B200"]).possible] == ["H100-80GB"]
    assert [one.kind for one in offers(None, fixed).possible] == ["L4"], "nobody sees what is there"


def test_a_declared_price_applies_to_all_offers_of_its_kind() -> None:
    found = offers(nodes(node("a", gpus=8)), Settings(gpu_offers=("H100-80GB:8@2.5",)))
    assert [one.price for one in found.possible] == [2.5]


def test_gpus_named_in_the_spec_are_offered_if_no_node_or_setting_has_them() -> None:
    assert described(offers([], products=["H200", "abacus"])) == [("H200", 8, 1, "")]
    seen = nodes(node("a", gpus=2, labels=L4))
    assert described(offers(seen, products=["L4"])) == [("L4", 2, 1, "NVIDIA-L4")]


def test_a_gpu_kind_of_the_spec_applies_to_nodes_without_labels() -> None:
    bare = node_view({**node("a"), "status": {"allocatable": {"nvidia.com/gpu": "2"}}})
    assert offers([bare]).unknown_nodes == 1
    assert offers([bare]).possible == ()
    assert described(offers([bare], products=["L4"])) == [("L4", 2, 1, "")]


def test_a_resource_name_excludes_all_other_resources() -> None:
    slices = node_view(
        {**node("a", labels=L4), "status": {"allocatable": {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "7"}}}
    )
    assert len(offers([slices]).possible) == 2
    (only,) = offers([slices], resourceName="nvidia.com/mig-1g.10gb").possible
    assert (only.resource, only.per_node) == ("nvidia.com/mig-1g.10gb", 7)


def test_engine_places_are_counted_per_node_without_cordoned_and_unready_nodes() -> None:
    three = unchecked_plan(SizingInputs(3))
    seen = nodes(node("a", gpus=8), node("b", gpus=2), node("c", gpus=8, cordoned=True), node("d", gpus=8, ready=False))
    assert room_for(seen, {}, three) == 2
    assert room_for(seen, {}, replace(three, gpus_per_replica=0)) == 0


@pytest.mark.parametrize(
    ("resource", "has"), [("nvidia.com/gpu", True), ("nvidia.com/mig-1g.5gb", True), ("cpu", False)]
)
def test_only_nodes_with_gpus_are_observed(resource: str, has: bool) -> None:  # noqa: FBT001
    assert has_gpus(node_view({**node("a"), "status": {"allocatable": {resource: "1"}}})) is has
    assert has_gpus(node_view({**node("a"), "status": {"allocatable": {resource: "0"}}})) is has


def test_a_node_whose_device_plugin_reports_no_gpu_offers_none_and_is_not_called_unknown() -> None:
    found = offers([node_view({**node("a", labels=L4), "status": {"allocatable": {"nvidia.com/gpu": "0"}}})])
    assert (found.live, found.unknown_nodes) == ((), 0)


@pytest.mark.parametrize(
    ("asked", "per_node"),
    [
        ({"products": ["L4"]}, 1),
        ({"products": ["H100"]}, 8),
        ({"products": ["L4"], "perNode": 4}, 4),
        ({"products": ["H100"], "perNode": 2}, 2),
    ],
)
def test_the_spec_says_how_many_gpus_a_node_has_that_does_not_exist_yet(asked: Manifest, per_node: int) -> None:
    assert [one.per_node for one in offers([], **asked).possible] == [per_node]


def test_more_gpus_than_existing_nodes_have_count_only_if_the_spec_says_so() -> None:
    seen = nodes(node("a", gpus=1, labels=L4))
    assert described(offers(seen, products=["L4"])) == [("L4", 1, 1, "NVIDIA-L4")]
    assert ("L4", 4, 1, "NVIDIA-L4") in described(offers(seen, products=["L4"], perNode=4))
