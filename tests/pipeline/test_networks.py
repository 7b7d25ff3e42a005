"""The network between the pods of an engine over several nodes: devices, interface, memory lock, topology."""

import copy
from typing import Any

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.engines.registry import ENGINES as REGISTRY
from inference_operator.manifest import STATEFUL_SET, Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Outcome, Planned, Refused
from inference_operator.pipeline.validation import default_errors
from inference_operator.settings import Capacity, Settings
from inference_operator.views.node import NodeView, node_view
from tests.testing.builders import ENGINES, inference_deployment, inputs, model_known
from tests.testing.nodes import node
from tests.testing.schemas import validate

PAIR = {"tensor": 8, "nodes": 2}
RDMA = "rdma/hca_shared_devices_a"
EFA = "vpc.amazonaws.com/efa"
FIXED = Settings(capacity=Capacity.FIXED)
LOCKS = {"drop": ["ALL"], "add": ["IPC_LOCK"]}


def nodes(count: int = 2, *, labels: list[dict[str, str]] | None = None, **devices: int) -> list[NodeView]:
    """Nodes of eight H100s; each with so many of these devices."""
    found = []
    for number in range(count):
        made = node(f"h100-{number}", gpus=8, labels=labels[number] if labels else None)
        amounts = {{"rdma": RDMA, "efa": EFA}[name]: str(amount) for name, amount in devices.items()}
        made["status"]["allocatable"].update(amounts)
        found.append(node_view(made))
    return found


def decided(
    network: object = None,
    *,
    on: list[NodeView] | None = None,
    settings: Settings | None = None,
    parallelism: object = None,
    **more: Any,  # noqa: ANN401 - the API's own fields
) -> Outcome:
    hardware: dict[str, Any] = {"hardware": {"network": network}} if network else {}
    raw = inference_deployment(parallelism=parallelism or PAIR, **{**hardware, **more})
    known = [model_known(raw)]
    there = nodes(rdma=8) if on is None else on
    return outcome(inputs(raw, children=known, nodes=there, settings=settings or Settings()))


def planned(*args: Any, **more: Any) -> Planned:  # noqa: ANN401 - those of `decided`
    found = decided(*args, **more)
    assert isinstance(found, Planned), found
    return found


def pod(*args: Any, **more: Any) -> Manifest:  # noqa: ANN401 - those of `decided`
    made = next(one for ref, one in planned(*args, **more).desired.items() if ref.kind == STATEFUL_SET)
    validate(copy.deepcopy(made), "1.36")
    found: Manifest = made["spec"]["template"]["spec"]
    return found


def engine(*args: Any, **more: Any) -> Manifest:  # noqa: ANN401 - those of `decided`
    found: Manifest = pod(*args, **more)["containers"][0]
    return found


def variables(container: Manifest) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


def refusal(*args: Any, **more: Any) -> str:  # noqa: ANN401 - those of `decided`
    found = decided(*args, **more)
    assert isinstance(found, Refused), found
    return f"{found.refusal.reason}: {found.refusal.message}"


def test_each_member_requests_the_network_devices_beside_its_gpus() -> None:
    for network, amount in (({"resource": RDMA}, "1"), ({"resource": RDMA, "count": 4}, "4")):
        resources = engine(network)["resources"]
        assert resources["requests"][RDMA] == resources["limits"][RDMA] == amount
        assert resources["limits"]["nvidia.com/gpu"] == "8"
    assert RDMA not in engine()["resources"]["limits"]


def test_nccl_and_gloo_use_the_interface_and_the_log_tells_the_network() -> None:
    made = variables(engine({"interface": "net1"}))
    assert (made["NCCL_SOCKET_IFNAME"], made["GLOO_SOCKET_IFNAME"], made["NCCL_DEBUG"]) == ("=net1", "net1", "INFO")
    plain = variables(engine())
    assert "NCCL_SOCKET_IFNAME" not in plain
    assert plain["NCCL_DEBUG"] == "INFO"
    quiet = variables(engine(engine={"env": [{"name": "NCCL_DEBUG", "value": "WARN"}]}))
    assert quiet["NCCL_DEBUG"] == "WARN"


def test_a_group_on_cpus_uses_the_interface_without_nccl() -> None:
    made = variables(engine(hardware={"device": "CPU", "network": {"interface": "net1"}}, parallelism={"nodes": 2}))
    assert made["GLOO_SOCKET_IFNAME"] == "net1"
    assert not [name for name in made if name.startswith("NCCL_")]


def test_ucx_uses_the_interface_unless_there_are_devices_or_the_user_names_some() -> None:
    assert variables(engine({"interface": "net1"}))["UCX_NET_DEVICES"] == "net1"
    assert "UCX_NET_DEVICES" not in variables(engine({"interface": "net1", "resource": RDMA}))
    own = {"env": [{"name": "UCX_NET_DEVICES", "value": "mlx5_0:1"}]}
    assert variables(engine({"interface": "net1"}, engine=own))["UCX_NET_DEVICES"] == "mlx5_0:1"


def test_only_the_engine_of_a_group_that_asks_for_it_may_lock_memory() -> None:
    assert engine({"ipcLock": True})["securityContext"]["capabilities"] == LOCKS
    assert engine({"resource": RDMA})["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_members_of_a_group_run_in_one_topology_domain_beside_the_users_affinity() -> None:
    zone, required = "topology.kubernetes.io/zone", "requiredDuringSchedulingIgnoredDuringExecution"
    own = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}
    there = nodes(labels=[{zone: "a"}, {zone: "a"}])
    asked = {"topologyKey": zone, "affinity": {"podAffinity": {required: [own]}}}
    found = planned(on=there, scheduling=asked, replicas=2)
    sets = [one for ref, one in found.desired.items() if ref.kind == STATEFUL_SET]
    assert len(sets) == 2
    assert len({str(one["spec"]["template"]["metadata"]["annotations"]) for one in sets}) == 1
    for one in sets:
        affinity = one["spec"]["template"]["spec"]["affinity"]
        mine, members = affinity["podAffinity"][required]
        assert mine == own
        assert members["topologyKey"] == zone
        assert members["matchLabelKeys"] == ["inference-operator.dev/group"]
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert members["labelSelector"]["matchLabels"].items() <= labels.items()
        assert labels["inference-operator.dev/group"] == one["metadata"]["name"]
        assert "nodeAffinity" in affinity


def test_an_engine_that_fits_on_one_node_has_no_network_and_says_so() -> None:
    asked = {"network": {"resource": RDMA, "interface": "net1", "ipcLock": True}}
    raw = {"hardware": asked, "scheduling": {"topologyKey": "zone"}}
    found = planned(parallelism={"tensor": 1}, **raw)
    plain = planned(parallelism={"tensor": 1})
    assert found.desired[ENGINES]["spec"]["template"] == plain.desired[ENGINES]["spec"]["template"]
    assert "`spec.hardware.network` and `spec.scheduling.topologyKey` have no effect" in found.notice
    default = Settings.model_validate({"engine_defaults": {"network": {"resource": RDMA}}})
    assert "no effect" not in planned(parallelism={"tensor": 1}, settings=default).notice


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"hardware": {"network": {"interface": "net1"}}}, "spec.hardware.network: It is for engines over several"),
        ({"scheduling": {"topologyKey": "zone"}}, "spec.scheduling.topologyKey: It is for engines over several nodes"),
    ],
)
def test_fields_of_groups_are_refused_where_an_engine_has_one_node(raw: dict[str, object], words: str) -> None:
    alone = refusal(parallelism={"tensor": 1, "nodes": 1}, **raw)
    assert alone.startswith(f"{Reason.INVALID_SPEC}: {words}")
    assert alone.endswith("Remove it, or set `spec.parallelism.nodes` to 2 or more.")
    other = refusal(parallelism={"tensor": 1}, engine={"kind": "Transformers"}, **raw)
    assert other.endswith("Remove it, or set `spec.engine.kind: VLLM`.")


def test_what_the_operator_sets_for_the_network_cannot_be_set_twice() -> None:
    twice = {"interface": "net1"}, {"env": [{"name": "NCCL_SOCKET_IFNAME", "value": "eth0"}]}
    said = refusal(twice[0], engine=twice[1])
    assert said.startswith(f"{Reason.MANAGED_ARGUMENT}: spec.engine.env[NCCL_SOCKET_IFNAME]:")
    assert "spec.hardware.network.interface" in said
    requested = {"resources": {"limits": {RDMA: "2"}}}
    said = refusal({"resource": RDMA}, engine=requested)
    assert said.startswith(f"{Reason.MANAGED_ARGUMENT}: spec.engine.resources.limits[{RDMA}]:")
    for gpus in ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"):
        assert "is a GPU" in refusal({"resource": gpus})


def test_a_network_that_no_node_has_is_refused_before_any_pod() -> None:
    said = refusal({"resource": EFA})
    assert said.startswith(
        f"{Reason.NO_SUITABLE_NETWORK}: spec.hardware.network.resource: No nodes for the engine offer"
    )
    said = refusal({"resource": RDMA, "count": 9})
    assert f"offer 9 `{RDMA}`. The most that one has is 8." in said


def test_too_few_nodes_with_the_network_are_refused_where_no_node_can_be_added() -> None:
    mixed = [*nodes(2), *nodes(1, rdma=8)]
    assert isinstance(decided({"resource": RDMA}, on=mixed), Planned)
    assert "Fewer than 2 nodes for the engine offer" in refusal({"resource": RDMA}, on=mixed, settings=FIXED)
    assert isinstance(decided({"resource": RDMA}, settings=FIXED), Planned)


def test_nodes_that_are_not_there_or_not_seen_are_not_judged() -> None:
    coming = {"gpu": {"products": ["H100-80GB"]}, "network": {"resource": EFA}}
    assert isinstance(decided(hardware=coming, on=[]), Planned)


@pytest.mark.parametrize(
    ("labels", "settings", "words"),
    [
        ([{}, {}], Settings(), "No nodes for the engine have the label `nvidia.com/gpu.clique`."),
        (
            [{"nvidia.com/gpu.clique": "a.1"}, {"nvidia.com/gpu.clique": "a.2"}],
            FIXED,
            "Fewer than 2 nodes for the engine have the label `nvidia.com/gpu.clique` with the same value.",
        ),
    ],
)
def test_a_topology_that_no_nodes_share_is_refused_before_any_pod(
    labels: list[dict[str, str]], settings: Settings, words: str
) -> None:
    asked = {"scheduling": {"topologyKey": "nvidia.com/gpu.clique"}, "on": nodes(labels=labels)}
    said = refusal(settings=settings, **asked)
    assert said.startswith(f"{Reason.NO_SUITABLE_NETWORK}: spec.scheduling.topologyKey: {words}")


def test_the_administrators_network_lies_beneath_that_of_a_resource() -> None:
    default = {"network": {"resource": RDMA, "count": 2, "interface": "net1", "ipcLock": True}}
    settings = Settings.model_validate({"engine_defaults": default})
    made = engine(settings=settings)
    assert made["resources"]["limits"][RDMA] == "2"
    assert made["securityContext"]["capabilities"] == LOCKS
    own = engine({"interface": "net2", "ipcLock": False}, settings=settings)
    assert variables(own)["GLOO_SOCKET_IFNAME"] == "net2"
    assert own["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    said = refusal(settings=settings, on=nodes())
    assert "It comes from the operator's setting `engineDefaults`." in said


def test_a_named_interface_replaces_variables_of_the_administrator() -> None:
    default = {"env": [{"name": "NCCL_SOCKET_IFNAME", "value": "eth0"}]}
    settings = Settings.model_validate({"engine_defaults": default})
    assert variables(engine(settings=settings))["NCCL_SOCKET_IFNAME"] == "eth0"
    assert variables(engine({"interface": "net1"}, settings=settings))["NCCL_SOCKET_IFNAME"] == "=net1"


def test_a_default_network_of_gpus_ends_the_operator_with_an_error() -> None:
    settings = Settings.model_validate({"engine_defaults": {"network": {"resource": "nvidia.com/gpu"}}})
    (said,) = default_errors(settings, REGISTRY)
    assert said.startswith("INFERENCE_OPERATOR_ENGINE_DEFAULTS: network.resource: `nvidia.com/gpu` is a GPU.")
