"""Engines over several nodes in the pipeline: their objects, alone and with everything else switched on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.spec import Spec
from inference_operator.engines.vllm.vllm import PORT
from inference_operator.manifest import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    SERVICE,
    STATEFUL_SET,
    Manifest,
    Ref,
)
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Refused
from inference_operator.settings import Settings
from inference_operator.status.report import report
from inference_operator.views.workload import ENGINES_ANNOTATION
from tests.testing.builders import inference_deployment, inputs, known_claims, model_known, planned
from tests.testing.golden import assert_golden

R1 = inference_deployment(source="hf://deepseek-ai/DeepSeek-R1", parallelism={"nodes": 2})
WIDE = inference_deployment(source="hf://deepseek-ai/DeepSeek-R1", parallelism={"data": 16, "nodes": 2})
PAIR = {"tensor": 1, "nodes": 2}
ENGINES = Ref(SERVICE, "default", "qwen-engines")
FIRST = Ref(STATEFUL_SET, "default", "qwen-engine-0")


def pair(**spec: Any) -> Manifest:  # noqa: ANN401 - fields of the spec
    return inference_deployment(parallelism=PAIR, **spec)


def desired(raw: Manifest, settings: Settings | None = None, **more: Any) -> Mapping[Ref, Manifest]:  # noqa: ANN401
    return planned(raw, settings=settings or Settings(), **more).desired


def container(raw: Manifest, number: int = 0) -> Manifest:
    found: Manifest = desired(raw)[FIRST]["spec"]["template"]["spec"]["containers"][number]
    return found


def refused(raw: Manifest, *access_modes: str) -> str:
    given = inputs(raw, children=[model_known(raw)])
    found = outcome(replace(given, lookups=known_claims(raw, *access_modes)) if access_modes else given)
    assert isinstance(found, Refused), found
    assert found.refusal.reason in {
        *(Reason.INVALID_SPEC, Reason.VOLUME_UNAVAILABLE),
        *(Reason.INVALID_PARALLEL_SIZE, Reason.MANAGED_ARGUMENT),
    }
    return f"{found.refusal.field}: {found.refusal.problem} {found.refusal.cure}"


def test_golden(snapshot: SnapshotAssertion) -> None:
    """DeepSeek-R1 on two nodes of eight H100."""
    assert_golden(snapshot, [child for ref, child in desired(R1).items() if "engine" in ref.name])


def test_wide_expert_parallel_golden(snapshot: SnapshotAssertion) -> None:
    """DeepSeek-R1 with sixteen data parallel ranks on two nodes of eight H100; not run by the project."""
    assert_golden(snapshot, [child for ref, child in desired(WIDE).items() if ref in {FIRST, ENGINES}])


def test_tensor_parallelism_over_two_pods_with_one_gpu_each() -> None:
    found = container(inference_deployment(parallelism={"tensor": 2, "pipeline": 1, "nodes": 2}))
    assert found["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "--tensor-parallel-size=2" in found["args"]
    assert not [one for one in found["args"] if one.startswith("--pipeline")]


def test_replicas_are_groups_and_each_selects_its_own_pods() -> None:
    found = [one for ref, one in desired(pair(replicas=3)).items() if ref.kind == STATEFUL_SET]
    names = [one["metadata"]["name"] for one in found]
    assert names == ["qwen-engine-0", "qwen-engine-1", "qwen-engine-2"]
    selectors = [one["spec"]["selector"]["matchLabels"] for one in found]
    assert len({str(one) for one in selectors}) == len(names)
    assert {one["spec"]["replicas"] for one in found} == {2}
    assert {one["metadata"]["annotations"][ENGINES_ANNOTATION] for one in found} == {"3"}
    templates = {one["spec"]["template"]["metadata"]["annotations"]["inference-operator.dev/template"] for one in found}
    assert len(templates) == 1, "all groups have one template"


def test_each_pod_requests_its_own_gpus_and_checks_them() -> None:
    found = container(R1)
    assert found["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert {"gpus=8", "size=2"} <= set(found["command"])
    assert {"--tensor-parallel-size=8", "--pipeline-parallel-size=2"} <= set(found["args"])


def test_the_service_selects_leaders_and_another_one_finds_all_members() -> None:
    found = desired(pair())
    engines = found[Ref(SERVICE, "default", "qwen-engines")]["spec"]
    assert engines["selector"]["apps.kubernetes.io/pod-index"] == "0"
    members = found[Ref(SERVICE, "default", "qwen-engine-members")]["spec"]
    assert members["publishNotReadyAddresses"]
    assert "apps.kubernetes.io/pod-index" not in members["selector"]
    assert found[FIRST]["spec"]["serviceName"] == "qwen-engine-members"
    assert Ref(DISRUPTION_BUDGET, "default", "qwen-engine") in found, "also with one replica"


@pytest.mark.parametrize("limited", [False, True])
def test_the_ports_of_members_are_open_to_their_own_pods_alone(limited: bool) -> None:  # noqa: FBT001
    policy = desired(pair(), Settings(network_policies=limited))[Ref(NETWORK_POLICY, "default", "qwen-engine")]["spec"]
    api, among = policy["ingress"]
    assert [one["port"] for one in api["ports"]] == [PORT]
    assert ("from" in api) is limited, "without a setting, everybody may send requests"
    own = {"app.kubernetes.io/component": "engine", "inference-operator.dev/name": "qwen"}
    assert among == {"from": [{"podSelector": {"matchLabels": own}}]}
    alone = desired(inference_deployment(), Settings(network_policies=limited))
    found = alone.get(Ref(NETWORK_POLICY, "default", "qwen-engine"))
    assert (len(found["spec"]["ingress"]) if found else 0) == limited


def test_an_installation_without_rights_on_network_policies_makes_none() -> None:
    found = desired(pair(), Settings(network_policies=False, network_policies_with_keys=False))
    assert not [ref for ref in found if ref.kind == NETWORK_POLICY]


def test_a_cache_keys_adapters_and_autoscaling_go_with_groups() -> None:
    raw = pair(
        model={"source": "hf://Qwen/Qwen3-8B", "adapters": [{"name": "a", "source": "hf://org/a"}]},
        cache={"size": "100Gi", "accessMode": "ReadWriteMany"},
        router={"keys": {"secretRef": {"name": "users"}}},
        autoscaling={"minReplicas": 1, "maxReplicas": 3},
        engine={"adapterSlots": 1, "maxAdapterRank": 16},
    )
    spec = inputs(raw).resource.spec
    assert isinstance(spec, Spec)
    given = inputs(raw, children=[model_known(raw)])
    found = outcome(given)
    assert not isinstance(found, Refused), found.refusal
    assert not [ref for ref in found.desired if ref == Ref(DEPLOYMENT, "default", "qwen-engine")]


def test_on_cpus_each_pod_has_a_stage() -> None:
    found = container(inference_deployment(hardware={"device": "CPU"}, parallelism={"nodes": 2}))
    assert "--pipeline-parallel-size=2" in found["args"]
    assert "nvidia.com/gpu" not in found["resources"].get("limits", {})


def test_names_and_claims_that_groups_cannot_have_are_refused() -> None:
    long = inference_deployment(name="a" * 37, parallelism=PAIR)
    assert refused(long) == (
        "metadata.name: has 37 characters; engines over 2 nodes allow at most 36. Use a shorter name, or set"
        " `spec.parallelism.nodes` to 1, if the model fits on one node."
    )
    assert not isinstance(outcome(inputs(inference_deployment(name="a" * 36, parallelism=PAIR))), Refused)
    one_node = pair(cache={"size": "100Gi", "accessMode": "ReadWriteOnce"})
    assert "only pods on one node can mount claim `qwen-cache`" in refused(one_node)
    assert "only pods on one node can mount claim `models`" in refused(
        pair(cache={"claimName": "models"}), "ReadWriteOnce"
    )


@pytest.mark.parametrize("name", ["GROUP_RANK", "GROUP_SERVICE", "POD_NAME", "POD_IP"])
def test_the_variables_of_members_are_refused_in_groups_alone(name: str) -> None:
    engine = {"env": [{"name": name, "value": "1"}]}
    assert refused(pair(engine=engine)).startswith(f"spec.engine.env[{name}]: `{name}` is managed by the operator.")
    alone = inference_deployment(engine=engine)
    assert not isinstance(outcome(inputs(alone, children=[model_known(alone)])), Refused)


def test_no_variable_stands_twice_in_a_member() -> None:
    names = [one["name"] for one in container(pair(hardware={"network": {"interface": "net1"}}))["env"]]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    "args",
    [
        ["--distributed-executor-backend=ray"],
        ["--distributed-executor-backend", "uni"],
        ["--distributed-executor=external_launcher"],
        ["--distributed_executor_backend"],
    ],
)
def test_how_the_processes_of_a_group_are_started_is_the_operators(args: list[str]) -> None:
    said = refused(pair(engine={"args": ["--seed=1", *args]}))
    assert said.startswith("spec.engine.args[1]: `--")
    assert said.endswith("in an engine over several nodes. Remove it; the operator connects the pods with `mp`.")
    alone = inference_deployment(engine={"args": args})
    assert not isinstance(outcome(inputs(alone, children=[model_known(alone)])), Refused)


def test_the_backend_of_groups_may_be_named() -> None:
    given = pair(engine={"args": ["--distributed-executor-backend=mp"]})
    assert "--distributed-executor-backend=mp" in container(given)["args"]


@pytest.mark.parametrize("flag", ["--nnodes=2", "--node-rank=1", "--master-addr=a", "--master-port=1", "--headless"])
def test_the_flags_that_connect_members_are_refused(flag: str) -> None:
    name = flag.partition("=")[0]
    assert refused(pair(engine={"args": [flag]})) == (
        f"spec.engine.args[0]: `{name}` is managed by the operator. Use `spec.parallelism.nodes`; the operator connects"
        " the pods of an engine."
    )


@pytest.mark.parametrize(
    ("parallelism", "more", "said"),
    [
        (
            {"data": 2},
            {"engine": {"kind": "SGLang"}},
            "spec.parallelism.data: This engine has no data parallel ranks. ",
        ),
        (
            {"data": 2},
            {"engine": {"args": ["--no-enable-expert-parallel"]}},
            "spec.engine.args: `--enable-expert-parallel` is off, and `spec.parallelism.data` needs it. Remove the",
        ),
        (
            {"data": 2, "nodes": 2},
            {"hardware": {"device": "CPU"}},
            "spec.parallelism.data: Data parallel ranks need GPUs. Remove it.",
        ),
        (
            {"data": 2},
            {"engine": {"args": ["--data-parallel-hybrid-lb"]}},
            "spec.engine.args[0]: `--data-parallel-hybrid-lb` is managed by the operator. Use `spec.parallelism.data`;",
        ),
        (
            {"data": 3, "nodes": 2},
            {},
            "spec.parallelism.data: 3 data parallel ranks cannot be divided equally over 2 nodes. Use a multiple of 2",
        ),
        ({"data": 2}, {}, "spec.parallelism.data: Data parallel ranks share routed experts, and this model has none."),
    ],
)
def test_data_parallel_ranks_that_cannot_run_are_refused_before_any_pod(
    parallelism: Manifest, more: Manifest, said: str
) -> None:
    assert refused(inference_deployment(parallelism=parallelism, **more)).startswith(said)


def test_the_status_says_that_data_parallel_ranks_were_not_run() -> None:
    given = inputs(WIDE, children=[model_known(WIDE)])
    found = report(given, outcome(given), []).status
    sized = found.condition(ConditionType.SIZED)
    assert sized
    assert "Data parallel ranks with expert parallelism were not run by the project" in sized.message
    assert "at once in each data parallel rank" in sized.message
    assert found.plan
    assert (found.plan.tensor_parallel_size, found.plan.data_parallel_size, found.plan.nodes) == (1, 16, 2)
    assert found.plan.model_dump(mode="json", by_alias=True)["dataParallelSize"] == 16
    alone = outcome(inputs(R1, children=[model_known(R1)]))
    plain = report(inputs(R1, children=[model_known(R1)]), alone, []).status
    assert plain.plan
    assert "dataParallelSize" not in plain.plan.model_dump(mode="json", by_alias=True)
