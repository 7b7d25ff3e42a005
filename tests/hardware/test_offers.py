"""GPU offers of nodes, from labels that were seen on public nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.hardware.kinds import GPU_KINDS, kind_named, kind_of_product
from inference_operator.hardware.offers import GpuOffer, merged, offer_of_kind, offers_of_node

OFFERS = st.builds(offer_of_kind, st.sampled_from(GPU_KINDS), per_node=st.integers(1, 8), nodes=st.integers(1, 3))


def only(labels: dict[str, str], allocatable: dict[str, str]) -> GpuOffer:
    (found,) = offers_of_node(labels, allocatable)
    return found


@pytest.mark.parametrize(
    ("product", "kind"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100-80GB"),
        ("NVIDIA-H100-PCIe", "H100-PCIe"),
        ("NVIDIA-H100-NVL", "H100-NVL"),
        ("NVIDIA-H200", "H200"),
        ("NVIDIA-H20", "H20"),
        ("NVIDIA-H20-3e", "H20"),
        ("NVIDIA-A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA-A100-80GB-PCIe", "A100-80GB"),
        ("NVIDIA-A100-PCIE-40GB", "A100-40GB"),
        ("A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA-L4", "L4"),
        ("NVIDIA-L40S", "L40S"),
        ("NVIDIA-L40", "L40"),
        ("NVIDIA-A10G", "A10G"),
        ("NVIDIA-A10", "A10"),
        ("Tesla-T4", "T4"),
        ("Tesla-V100-SXM2-32GB", "V100-32GB"),
        ("NVIDIA-B200", "B200"),
        ("NVIDIA-GB200", "GB200"),
        ("NVIDIA-B300-SXM6-AC", "B300"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000"),
        ("NVIDIA-GeForce-RTX-4090", "RTX-4090"),
        ("NVIDIA-GeForce-RTX-5090", "RTX-5090"),
        ("NVIDIA-RTX-A6000", "RTX-A6000"),
        ("NVIDIA-RTX-6000-Ada-Generation", "RTX-6000-Ada"),
        ("NVIDIA-L4-SHARED", "L4"),
    ],
)
def test_a_gpu_product_label_gives_the_gpu_kind(product: str, kind: str) -> None:
    found = kind_of_product(product)
    assert found
    assert found.name == kind


@pytest.mark.parametrize("kind", GPU_KINDS, ids=lambda kind: kind.name)
def test_a_gpu_kind_is_found_by_its_common_names(kind: object) -> None:
    assert kind_named(getattr(kind, "name", "")) is kind


def test_an_unknown_gpu_product_is_sized_by_the_memory_in_its_label() -> None:
    found = only({"nvidia.com/gpu.product": "NVIDIA-X9000", "nvidia.com/gpu.memory": "65536"}, {"nvidia.com/gpu": "2"})
    assert (found.kind, found.per_node) == ("NVIDIA-X9000", 2)
    assert found.memory_gib == pytest.approx(63.04)


def test_a_gpu_variant_is_sized_by_the_memory_in_its_label() -> None:
    found = only({"nvidia.com/gpu.product": "NVIDIA-H20", "nvidia.com/gpu.memory": "143771"}, {"nvidia.com/gpu": "8"})
    assert found.memory_gib == pytest.approx(138.3, abs=0.1)


def test_gpus_of_a_node_without_labels_cannot_be_sized() -> None:
    assert offers_of_node({}, {"nvidia.com/gpu": "8"}) == ()


def test_the_accelerator_label_of_google_gives_the_gpu_product() -> None:
    found = only({"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, {"nvidia.com/gpu": "8"})
    assert (found.kind, found.product, found.label) == (
        "H100-80GB",
        "nvidia-h100-80gb",
        "cloud.google.com/gke-accelerator",
    )


def test_a_mig_slice_is_an_offer_of_one_gpu_under_both_strategies() -> None:
    single = only({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}, {"nvidia.com/gpu": "7"})
    assert (single.kind, single.most_in_a_group) == ("A100-80GB 1g.10gb", 1)
    assert single.memory_gib == pytest.approx(9.75)
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    mixed = offers_of_node(
        labels, {"nvidia.com/mig-1g.10gb": "2", "nvidia.com/mig-3g.40gb": "1", "nvidia.com/gpu": "0"}
    )
    assert [(one.kind, one.resource) for one in mixed] == [
        ("A100-80GB 1g.10gb", "nvidia.com/mig-1g.10gb"),
        ("A100-80GB 3g.40gb", "nvidia.com/mig-3g.40gb"),
    ]


@pytest.mark.parametrize(
    ("labels", "resource"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"}, "nvidia.com/gpu"),
        ({"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.replicas": "4"}, "nvidia.com/gpu"),
        ({"nvidia.com/gpu.product": "NVIDIA-L4"}, "nvidia.com/gpu.shared"),
        ({"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.sharing-strategy": "mps"}, "nvidia.com/gpu"),
    ],
)
def test_a_shared_gpu_is_marked_as_shared(labels: dict[str, str], resource: str) -> None:
    assert only(labels, {resource: "4"}).shared


@given(
    st.dictionaries(st.sampled_from(["nvidia.com/gpu.product", "nvidia.com/gpu.memory", "x"]), st.text(max_size=12)),
    st.dictionaries(st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"]), st.text(max_size=6)),
)
def test_any_node_labels_are_read_without_an_error(labels: dict[str, str], allocatable: dict[str, str]) -> None:
    assert all(one.per_node > 0 for one in offers_of_node(labels, allocatable))


@given(st.lists(OFFERS, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_change_merged_offers(offers: list[GpuOffer], chance: object) -> None:
    shuffled = list(offers)
    getattr(chance, "shuffle")(shuffled)  # noqa: B009 - a random.Random, which pure code may not import
    assert merged(offers) == merged(shuffled)
    assert sum(one.nodes for one in merged(offers)) == sum(one.nodes for one in offers)
