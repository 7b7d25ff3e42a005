"""Engine plans for the GPUs of a cluster, through the whole pipeline."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.jobs.result import Cause
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.settings import Capacity, Settings
from inference_operator.sizing.plan import Plan
from inference_operator.status.report import report
from inference_operator.views.lookups import ClusterGpus, FreeGpusLookup, NodeGpus, Unavailable
from inference_operator.views.node import NodeView, node_view
from tests.status.situations import NO_GPU, view
from tests.testing.builders import ENGINES, NODES, inference_deployment, inputs, planned, ready_pod
from tests.testing.inspected import failing
from tests.testing.nodes import node

L4 = {"nvidia.com/gpu.product": "NVIDIA-L4"}
FOUR_L4 = node_view(node("l4-a", gpus=4, labels=L4))


def decided(
    raw: Manifest, nodes: Sequence[NodeView] | None = NODES, settings: Settings | None = None, **more: object
) -> Planned:
    result = outcome(inputs(raw, nodes=nodes, settings=settings or Settings(), **more))  # type: ignore[arg-type]
    assert isinstance(result, Planned), result
    return result


def planned_from(seen: Inputs) -> Planned:
    result = outcome(seen)
    assert isinstance(result, Planned), result
    return result


def sizes(raw: Manifest, nodes: Sequence[NodeView] | None = NODES, settings: Settings | None = None) -> Plan:
    return decided(raw, nodes, settings).plan.plan


def spec_of(found: Planned) -> Manifest:
    spec: Manifest = found.desired[ENGINES]["spec"]["template"]["spec"]
    return spec


def terms_of(found: Planned) -> list[Manifest]:
    """The requirements of each required node term."""
    terms = spec_of(found)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return [{e["key"]: e.get("values", e["operator"]) for e in term["matchExpressions"]} for term in terms]


def test_the_smallest_fitting_size_is_planned_on_nodes_with_any_label_of_its_gpus() -> None:
    found = decided(inference_deployment(), [FOUR_L4])
    (container,) = spec_of(found)["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert "nodeSelector" not in spec_of(found)
    assert terms_of(found)[0] == {"nvidia.com/gpu.product": ["NVIDIA-L4"]}
    assert terms_of(found)[2] == {
        "cloud.google.com/gke-accelerator": ["nvidia-l4"],
        "nvidia.com/gpu.product": "DoesNotExist",
    }
    assert {"--tensor-parallel-size=2", "--gpu-memory-utilization=0.92"} <= set(container["args"])
    plan = found.plan.plan
    assert (plan.gpu, plan.gpus_per_replica, plan.max_model_len) == ("L4", 2, 40960)
    assert plan.per_gpu is not None
    assert plan.per_gpu.kv_cache_tokens > 40960 + 8 * 2048
    assert plan.weight_bytes == 16_381_444_096


def test_the_node_selector_of_the_spec_is_kept_beside_that_of_the_plan() -> None:
    found = decided(
        inference_deployment(scheduling={"nodeSelector": {"pool": "a"}}),
        [node_view(node("a", gpus=1, labels={"pool": "a"}))],
    )
    assert spec_of(found)["nodeSelector"] == {"pool": "a"}
    assert terms_of(found)[0] == {"nvidia.com/gpu.product": ["NVIDIA-H100-80GB-HBM3"]}


def test_a_gpu_kind_without_a_node_is_selected_by_every_label_that_names_it_and_by_the_users_affinity() -> None:
    raw = inference_deployment(hardware={"gpu": {"products": ["H100"]}}, scheduling={"affinity": AFFINITY})
    found = decided(raw, [node_view(node("l4-a", gpus=4, labels={**L4, "gpu": "yes"}))])
    terms = terms_of(found)
    assert len(terms) == 5
    assert all(term["gpu"] == "Exists" for term in terms)
    assert terms[0] == {"gpu": "Exists", "nvidia.com/gpu.product": ["NVIDIA-H100-80GB-HBM3"]}
    assert found.roles[0].sized.missing_gpu_kind == "H100-80GB"


def test_a_gpu_kind_that_no_label_names_is_selected_by_excluding_other_gpu_products() -> None:
    """Two nodes have GPUs: no label of one names their kind, so only the specification does."""
    silent = {**node("a"), "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    raw = inference_deployment(hardware={"gpu": {"products": ["H100"]}}, scheduling={"affinity": AFFINITY})
    silent["metadata"]["labels"] = {"gpu": "yes"}
    found = decided(raw, [node_view(silent), node_view(node("l4-a", gpus=4, labels={**L4, "gpu": "yes"}))])
    assert terms_of(found) == [{"gpu": "Exists", "nvidia.com/gpu.product": ["NVIDIA-L4"]}]
    assert not found.plan.plan.labels_of_kind


def test_a_user_who_selects_a_gpu_product_decides_alone() -> None:
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    found = decided(inference_deployment(scheduling={"nodeSelector": selector}), NODES)
    assert spec_of(found)["nodeSelector"] == selector
    assert "affinity" not in spec_of(found)


def test_terms_of_the_user_are_combined_with_every_alternative() -> None:
    asked = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("a", "b")]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": asked}}}
    nodes = [node_view(node("a", gpus=8, labels={"zone": "a"}))]
    terms = terms_of(decided(inference_deployment(scheduling={"affinity": affinity}), nodes))
    assert len(terms) == 10
    assert [term["zone"] for term in terms[:4]] == [["a"], ["b"], ["a"], ["b"]]
    assert [key for key in terms[3] if key != "zone"] == [
        "karpenter.k8s.aws/instance-gpu-name",
        "karpenter.k8s.aws/instance-gpu-memory",
        "nvidia.com/gpu.product",
    ]


def test_a_label_of_the_settings_selects_nodes_and_names_the_kind_of_their_gpus() -> None:
    silent = {**node("a"), "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    silent["metadata"]["labels"] = {"example.com/pool": "big"}
    settings = Settings(gpu_node_labels=("h100:example.com/pool=big",))
    found = decided(inference_deployment(), [node_view(silent)], settings)
    assert found.plan.plan.gpu == "H100-80GB"
    assert terms_of(found)[1] == {"example.com/pool": ["big"]}
    assert not found.roles[0].sized.missing_gpu_kind


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = {
    "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}}
}


def test_a_mig_slice_is_requested_by_its_resource_name() -> None:
    mig = {**node("a", labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}), "status": {}}
    mig["status"] = {"allocatable": {"nvidia.com/mig-3g.40gb": "2"}}
    found = decided(inference_deployment(), [node_view(mig)])
    (container,) = spec_of(found)["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/mig-3g.40gb": "1"}
    assert "--tensor-parallel-size=1" in container["args"]


def test_added_and_removed_nodes_do_not_change_a_running_engine() -> None:
    raw = inference_deployment()
    made = planned(raw).desired
    for nodes in ([], [FOUR_L4], None, [*NODES, FOUR_L4]):
        found = outcome(inputs(raw, children=made.values(), pods=[view(ready_pod())], nodes=nodes))
        assert isinstance(found, Planned)
        assert found.desired == made


def test_unschedulable_engines_are_sized_again_for_the_existing_nodes() -> None:
    raw = inference_deployment()
    made = planned(raw).desired
    found = outcome(inputs(raw, children=made.values(), pods=[view(NO_GPU)], nodes=[FOUR_L4]))
    assert isinstance(found, Planned)
    assert found.plan.plan.gpu == "L4"


def test_unschedulable_engines_are_sized_again_for_the_gpus_that_are_free() -> None:
    raw, nodes = inference_deployment(), [FOUR_L4, *NODES]
    first = decided(raw, nodes)
    assert first.plan.plan.gpu == "H100-80GB"
    seen = inputs(raw, children=first.desired.values(), pods=[view(NO_GPU)], nodes=nodes)
    waiting = outcome(seen)
    assert isinstance(waiting, Planned)
    look = FreeGpusLookup("nvidia.com/gpu")
    assert look in waiting.lookups
    assert waiting.plan.plan.gpu == "H100-80GB", "what is free is not known yet"

    def sized(l4: int, h100: int) -> Planned:
        gpus = [NodeGpus(FOUR_L4, 4, l4), *(NodeGpus(one, 8, h100) for one in NODES)]
        found = outcome(replace(seen, lookups={look: ClusterGpus(tuple(gpus), pending=1)}))
        assert isinstance(found, Planned)
        return found

    assert (sized(4, 0).plan.plan.gpu, sized(4, 0).plan.plan.gpus_per_replica) == ("L4", 2)
    assert sized(0, 0).plan == first.plan, "nothing is free: the plan waits for a node"
    assert sized(4, 8).plan == first.plan
    elsewhere = [replace(one, name=f"other-{one.name}", unschedulable=True) for one in NODES]
    gpus = [
        NodeGpus(FOUR_L4, 4, 4),
        *(NodeGpus(one, 8, 0) for one in NODES),
        *(NodeGpus(one, 8, 8) for one in elsewhere),
    ]
    found = outcome(replace(seen, lookups={look: ClusterGpus(tuple(gpus), pending=1)}))
    assert isinstance(found, Planned)
    assert found.plan.plan.gpu == "L4", "GPUs of nodes that the pod may not use are not free for it"
    forbidden = outcome(replace(seen, lookups={look: Unavailable("forbidden")}))
    assert isinstance(forbidden, Planned)
    assert forbidden.plan == first.plan


def test_the_gpu_kind_of_existing_engines_is_kept_when_they_are_sized_again() -> None:
    made = planned(inference_deployment()).desired
    raw = inference_deployment(engine={"maxNumSeqs": 64, "profile": "Smallest"})
    found = outcome(inputs(raw, children=made.values(), pods=[view(ready_pod())], nodes=[FOUR_L4, *NODES]))
    assert isinstance(found, Planned)
    assert found.plan.plan.gpu == "H100-80GB"
    assert sizes(raw, [FOUR_L4, *NODES]).gpu == "L4"


def test_a_plan_without_a_memory_check_uses_the_requested_size_and_reports_the_missing_check() -> None:
    asked = failing(Cause.GATED, parallelism={"tensor": 2, "pipeline": 2})
    found = planned_from(asked).plan.plan
    assert (found.gpus_per_replica, found.max_model_len, found.per_gpu) == (4, None, None)
    assert found.unchecked_reason == "pvc://models/mine: is of no use."
    limited = failing(Cause.GATED, parallelism={"tensor": 2}, hardware={"gpu": {"products": ["L4"]}})
    with_l4 = planned_from(replace(limited, nodes=[FOUR_L4, *NODES])).plan.plan
    assert with_l4.node_selector == {"nvidia.com/gpu.product": "NVIDIA-L4"}
    without_node = planned_from(limited).plan.plan
    assert (without_node.gpu, without_node.node_selector, without_node.labels_of_kind) == ("L4", {}, True)


REFUSED: dict[str, tuple[Manifest, Sequence[NodeView] | None, Settings, Reason, str]] = {
    "a size that the model does not allow": (
        {"parallelism": {"tensor": 3}},
        NODES,
        Settings(),
        Reason.INVALID_PARALLEL_SIZE,
        "32 attention heads are not divisible by 3. Use 1, 2, 4, 8, or 16.",
    ),
    "such a size where nobody sees nodes": (
        {"parallelism": {"tensor": 3}},
        None,
        Settings(),
        Reason.INVALID_PARALLEL_SIZE,
        "32 attention heads are not divisible by 3. Use 1, 2, 4, 8, or 16.",
    ),
    "a context that the model does not have, without a node": (
        {"parallelism": {"tensor": 2}, "engine": {"maxModelLen": 10_000_000}},
        [],
        Settings(),
        Reason.CONTEXT_TOO_LONG,
        "10,000,000 tokens are more than the 40,960 that the model supports.",
    ),
    "GPUs that may not be used": (
        {"hardware": {"gpu": {"memory": "100Gi"}}},
        NODES,
        Settings(),
        Reason.NO_SUITABLE_GPU,
        "`hardware.gpu` excludes all GPUs of the cluster: H100-80GB (79.1 GiB, `memory` asks for 100Gi).",
    ),
    "nobody sees nodes": ({}, None, Settings(), Reason.NO_SUITABLE_GPU, "this operator cannot see nodes. Name one"),
    "a resource that no node has": (
        {"hardware": {"gpu": {"resourceName": "nvidia.com/mig-1g.10gb"}}},
        NODES,
        Settings(),
        Reason.NO_SUITABLE_GPU,
        "No node has `nvidia.com/mig-1g.10gb` that this engine may use.",
    ),
    "a slice that is named, and too small": (
        {"hardware": {"gpu": {"products": ["NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"]}}},
        NODES,
        Settings(),
        Reason.INSUFFICIENT_GPU_MEMORY,
        "tensor parallel 1 on A100-80GB 1g.10gb offers 9.0 GiB each",
    ),
    "fixed capacity": (
        {"hardware": {"gpu": {"products": ["H200"]}}},
        NODES,
        Settings(capacity=Capacity.FIXED),
        Reason.NO_SUITABLE_GPU,
        "`hardware.gpu` excludes all GPUs of the cluster: H100-80GB (`products` does not name it).",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_plan_names_the_shortage_and_creates_no_children(name: str) -> None:
    asked, nodes, settings, reason, words = REFUSED[name]
    found = outcome(inputs(inference_deployment(**asked), nodes=nodes, settings=settings))
    assert isinstance(found, Refused)
    assert found.refusal.reason is reason
    assert words in found.refusal.message
    assert found.desired == {}


@pytest.mark.parametrize("resource", [None, "nvidia.com/mig-3g.40gb"])
def test_a_requested_mig_slice_is_sized_by_the_memory_of_the_slice(resource: str | None) -> None:
    gpu = {"products": ["NVIDIA-A100-SXM4-80GB-MIG-3g.40gb"], **({"resourceName": resource} if resource else {})}
    plan = decided(inference_deployment(hardware={"gpu": gpu}), []).plan.plan
    assert (plan.gpu, plan.gpus_per_replica, plan.resource) == ("A100-80GB 3g.40gb", 1, resource or "nvidia.com/gpu")
    assert plan.node_selector == ({} if resource else {"nvidia.com/gpu.product": gpu["products"][0]})


@pytest.mark.parametrize(("asked", "ready", "made"), [(3, 0, 2), (2, 0, 2), (5, 4, 4)])
def test_fixed_capacity_limits_new_engines_to_the_nodes_places_and_stops_no_engine(
    asked: int, ready: int, made: int
) -> None:
    raw = inference_deployment(replicas=asked, parallelism={"tensor": 4})
    pods = [view(ready_pod(), name=f"qwen-engine-{number}") for number in range(ready)]
    fixed = Settings(capacity=Capacity.FIXED)
    found = decided(raw, NODES, fixed, pods=pods)
    assert found.desired[ENGINES]["spec"]["replicas"] == made
    assert (f"Nodes have GPUs for {made} of {asked} engines" in found.notice) is (made != asked)
    assert decided(raw, NODES, pods=pods).desired[ENGINES]["spec"]["replicas"] == asked


def test_an_edited_node_selector_makes_a_new_plan() -> None:
    pools = [
        node_view(node("a", gpus=4, labels={**L4, "pool": "a"})),
        node_view(node("b", gpus=8, labels={"pool": "b"})),
    ]
    made = decided(inference_deployment(scheduling={"nodeSelector": {"pool": "a"}}), pools).desired
    raw = inference_deployment(scheduling={"nodeSelector": {"pool": "b"}})
    found = outcome(inputs(raw, children=made.values(), pods=[view(ready_pod())], nodes=pools))
    assert isinstance(found, Planned)
    assert found.plan.plan.node_selector == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def test_unschedulable_engines_keep_their_plan_if_no_gpus_fit_any_more() -> None:
    made = planned(inference_deployment()).desired
    raw = inference_deployment(replicas=0)
    found = outcome(inputs(raw, children=made.values(), pods=[view(NO_GPU)], nodes=[]))
    assert isinstance(found, Planned)
    assert found.desired[ENGINES]["spec"]["replicas"] == 0
    assert spec_of(found) == made[ENGINES]["spec"]["template"]["spec"]


def test_the_plan_in_the_annotation_is_kept_if_the_status_has_an_older_plan() -> None:
    """The process died between the Deployment and the status, after engines had been sized anew for other GPUs."""
    raw = inference_deployment()
    first = decided(raw, [FOUR_L4])
    told = {**raw, "status": report(inputs(raw, nodes=[FOUR_L4]), first, []).status.dump()}
    again = outcome(inputs(told, children=first.desired.values(), pods=[view(NO_GPU)]))
    assert isinstance(again, Planned)
    assert again.plan.plan.gpu == "H100-80GB"
    meta = first.desired[ENGINES]["metadata"]
    annotations = {**meta["annotations"], **PLAN_ANNOTATION.entry(again.plan)}
    engines = {**first.desired[ENGINES], "metadata": {**meta, "annotations": annotations}}
    now = outcome(inputs(told, children=[engines], pods=[view(ready_pod())], nodes=[*NODES, FOUR_L4]))
    assert isinstance(now, Planned)
    assert now.plan == again.plan


def test_a_new_plan_equal_to_the_pinned_plan_changes_no_child() -> None:
    raw = inference_deployment()
    first = planned(raw)
    again = outcome(inputs(raw, children=first.desired.values(), pods=[view(NO_GPU)]))
    assert isinstance(again, Planned)
    assert again.desired == first.desired


def test_gpu_products_of_googles_accelerator_label_are_excluded_by_that_label() -> None:
    google, silent = ({**node(name), "status": {"allocatable": {"nvidia.com/gpu": "8"}}} for name in "ab")
    google["metadata"]["labels"] = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    raw = inference_deployment(hardware={"gpu": {"products": ["H100"]}})
    found = decided(raw, [node_view(google), node_view(silent)])
    (term,) = spec_of(found)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "cloud.google.com/gke-accelerator", "operator": "NotIn", "values": ["nvidia-l4"]}
    ]


def test_an_unchecked_size_selects_only_gpu_products_of_nodes_with_enough_gpus() -> None:
    raw_spec = {"parallelism": {"tensor": 8}, "hardware": {"gpu": {"products": ["L4", "H100"]}}}
    found = planned_from(replace(failing(Cause.UNUSABLE, **raw_spec), nodes=(FOUR_L4, *NODES)))
    assert found.plan.plan.node_selector == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def test_a_kv_cache_size_in_the_engine_arguments_is_counted() -> None:
    small = sizes(inference_deployment(engine={"args": ["--kv-cache-memory-bytes=8G"]}))
    assert small.per_gpu is not None
    assert small.per_gpu.kv_cache_gib == 8
    tiny = sizes(inference_deployment(engine={"args": ["--kv-cache-memory-bytes=1280M"], "maxModelLen": 8192}))
    assert (tiny.gpus_per_replica, tiny.max_model_len) == (1, 8192)
    too_small = {"args": ["--kv-cache-memory-bytes=1280M"], "maxModelLen": 32768}
    assert sizes(inference_deployment(engine=too_small)).gpus_per_replica == 4
    refused = outcome(inputs(inference_deployment(engine=too_small, parallelism={"tensor": 1})))
    assert isinstance(refused, Refused)
    assert refused.refusal.cure == "Fits with tensor parallel 4, or a context of 8,192."
    found = outcome(inputs(inference_deployment(engine={"args": ["--kv-cache-memory-bytes=400G"]})))
    assert isinstance(found, Refused)
    assert found.refusal.reason in (Reason.INSUFFICIENT_GPU_MEMORY, Reason.NEEDS_MULTI_NODE)


@pytest.mark.parametrize("amount", ["9" * 310, "99999999999999T", "1e9", "-1"])
def test_an_absurdly_large_kv_cache_size_raises_no_exception(amount: str) -> None:
    for device in ("GPU", "CPU"):
        raw = inference_deployment(hardware={"device": device}, engine={"args": [f"--kv-cache-memory-bytes={amount}"]})
        assert isinstance(outcome(inputs(raw)), Planned | Refused)


@pytest.mark.parametrize(("ready", "cordoned"), [(False, False), (True, True)])
def test_fixed_capacity_stops_no_engine_of_a_temporarily_unready_node(ready: bool, cordoned: bool) -> None:  # noqa: FBT001
    raw = inference_deployment(replicas=2, parallelism={"tensor": 4})
    fixed = Settings(capacity=Capacity.FIXED)
    troubled = [node_view(node("h100-a", gpus=8, ready=ready, cordoned=cordoned))]
    made = decided(raw, NODES, fixed).desired
    pods = [view({"phase": "Running"}, name=f"qwen-engine-{number}") for number in range(2)]
    found = outcome(inputs(raw, children=made.values(), pods=pods, nodes=troubled, settings=fixed))
    assert isinstance(found, Planned)
    assert found.desired[ENGINES]["spec"]["replicas"] == 2


def test_a_pool_of_nodes_with_one_gpu_gets_no_engine_of_two_on_one_node() -> None:
    """Qwen3-32B needs more than one L4."""
    asked: Manifest = {"model": {"source": "hf://Qwen/Qwen3-32B"}, "hardware": {"gpu": {"products": ["L4"]}}}
    found = outcome(inputs(inference_deployment(**asked), nodes=[]))
    assert isinstance(found, Planned)
    assert (found.plan.plan.gpus_per_pod, found.plan.plan.parallel.nodes) == (1, 4)
    asked["parallelism"] = {"nodes": 1}
    found = outcome(inputs(inference_deployment(**asked), nodes=[]))
    assert isinstance(found, Refused)
    assert "If nodes that do not exist yet have more GPUs, set `spec.hardware.gpu.perNode`." in found.refusal.cure
    asked["hardware"] = {"gpu": {"products": ["L4"], "perNode": 8}}
    found = outcome(inputs(inference_deployment(**asked), nodes=[]))
    assert isinstance(found, Planned)
    assert found.plan.plan.gpus_per_replica > 1


@pytest.mark.parametrize("seen", [[], NODES, None])
def test_an_unknown_kind_of_gpu_is_called_unknown_with_the_one_that_is_meant(seen: Sequence[NodeView] | None) -> None:
    asked = inference_deployment(hardware={"gpu": {"products": ["H1000"]}})
    found = outcome(inputs(asked, nodes=seen))
    assert isinstance(found, Refused)
    assert found.refusal.reason is Reason.NO_SUITABLE_GPU
    assert "`H1000` is no known kind of GPU, and no node has such a product: did you mean `H100-80GB`?" in (
        found.refusal.message
    )
