"""Prompts and answers computed apart: two roles, their way through the routers, and what is refused."""

import json
from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.administrator_policy import AdministratorPolicy
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.autoscaling.decision import Bound, Decision, Terms
from inference_operator.autoscaling.inputs import ScalingResult
from inference_operator.autoscaling.target import TargetBound
from inference_operator.engines.vllm.disaggregation import OF_ONE_ROLE
from inference_operator.engines.vllm.option_classes import CLASSES
from inference_operator.manifest import DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, NETWORK_POLICY, SERVICE, Manifest, Ref
from inference_operator.objects.engine_key import asked_key
from inference_operator.objects.names import ENGINE, PREFILL, ROUTER
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.status.report import report
from inference_operator.views.node import node_view
from inference_operator.views.pod import PodView, pod_template_hash, pod_view
from inference_operator.workload.pinned_template import ENGINE_PIN
from tests.testing.builders import (
    CONFIG,
    ENGINES,
    KEY,
    NODES,
    NOW,
    inference_deployment,
    inputs,
    model_known,
    pod,
    ready_pod,
)
from tests.testing.nodes import node

PREFILLS = Ref(DEPLOYMENT, KEY.namespace, "qwen-prefill")
ROUTERS = Ref(DEPLOYMENT, KEY.namespace, "qwen-router")
ALL = (ENGINES, PREFILLS, ROUTERS)
APART: Manifest = {"prefill": {"replicas": 2}}
COMMIT = "0" * 40


def asked(apart: Manifest | None = None, **spec: Any) -> Manifest:  # noqa: ANN401 - fields of the specification
    return inference_deployment(disaggregation=APART if apart is None else apart, **spec)


def given(raw: Manifest, *children: Manifest, **more: Any) -> Inputs:  # noqa: ANN401 - fields of the inputs
    return replace(inputs(raw, children=(model_known(raw, commit=COMMIT), *children)), **more)


def planned(found: Inputs) -> Planned:
    result = outcome(found)
    assert isinstance(result, Planned), result
    return result


def refusal(raw: Manifest, **more: Any) -> str:  # noqa: ANN401 - fields of the inputs
    result = outcome(given(raw, **more))
    assert isinstance(result, Refused), result
    return result.refusal.message


def arguments(result: Planned, ref: Ref) -> Any:  # noqa: ANN401 - JSON
    container = result.desired[ref]["spec"]["template"]["spec"]["containers"][0]
    return [*container["command"], *container["args"]]


def told(result: Planned, ref: Ref) -> dict[str, str]:
    """What the middleware of a role is told."""
    pairs = (argument.partition("=") for argument in arguments(result, ref))
    return {name: value for name, _, value in pairs if name in {"role", "revision", "url", "tokens", "objective"}}


def peers(result: Planned, name: str, port: int) -> list[Any]:
    """Who may connect to a port, by the NetworkPolicy of this name: components, and other peers as they are."""
    rules = result.desired[Ref(NETWORK_POLICY, KEY.namespace, name)]["spec"]["ingress"]
    of_port = [
        rule for rule in rules if any(one["port"] <= port <= one.get("endPort", one["port"]) for one in rule["ports"])
    ]
    found = [peer for rule in of_port for peer in rule.get("from", ["everybody"])]
    return [
        peer["podSelector"]["matchLabels"].get("app.kubernetes.io/component", "operator")
        if peer != "everybody"
        else peer
        for peer in found
    ]


def test_prefill_engines_have_a_plan_a_workload_and_a_number_of_their_own() -> None:
    result = planned(given(asked({"prefill": {"replicas": 2, "parallelism": {"tensor": 2}}}, replicas=3)))
    assert [(role.name, role.change.replicas, role.context.spec.has_scale) for role in result.roles] == [
        (ENGINE, 3, True),
        (PREFILL, 2, False),
    ]
    sizes = [role.plan.plan for role in result.roles]
    assert [(plan.parallel.tensor, plan.max_num_seqs) for plan in sizes] == [(1, sizes[0].max_num_seqs), (2, 32)]
    assert "--max-num-batched-tokens=8192" in arguments(result, PREFILLS)
    service = result.desired[Ref(SERVICE, KEY.namespace, "qwen-prefill")]["spec"]
    assert (service["clusterIP"], service["selector"]["app.kubernetes.io/component"]) == ("None", PREFILL)


def test_both_roles_agree_on_the_revision_and_only_one_knows_the_way() -> None:
    result = planned(given(asked({"minPromptTokens": 2048})))
    decode, prefill = (told(result, ref) for ref in (ENGINES, PREFILLS))
    assert (decode["role"], decode["url"], decode["tokens"]) == (
        "decode",
        "http://qwen-router.default.svc.cluster.local:8081",
        "2048",
    )
    assert (prefill["role"], prefill["url"], prefill["tokens"]) == ("prefill", "", "0")
    assert decode["revision"] == prefill["revision"]


@pytest.mark.parametrize(
    "changed",
    [
        {"engine": {"kvCacheDtype": "fp8"}},
        {"engine": {"args": ["--block-size=32"]}},
        {"engine": {"image": "docker.io/vllm/vllm-openai:v0.32.1"}},
        {"model": {"source": "hf://Qwen/Qwen3-8B", "revision": "1" * 40}},
        {"autoscaling": {"maxReplicas": 2, "objective": {"ttft": "9s"}}},
    ],
    ids=str,
)
def test_what_both_sides_must_have_equal_changes_the_revision_of_both(changed: Manifest) -> None:
    before, after = planned(given(asked())), planned(given(asked(**changed)))
    assert told(before, ENGINES)["revision"] != told(after, ENGINES)["revision"]
    assert told(after, ENGINES)["revision"] == told(after, PREFILLS)["revision"]


def test_without_a_commit_the_roles_never_meet() -> None:
    """Engines that start at different times may load different commits of a branch."""
    raw = asked()
    result = planned(inputs(raw, children=[model_known(raw)]))
    assert told(result, ENGINES)["revision"] != told(result, PREFILLS)["revision"]


def test_engines_ask_for_the_key_which_routers_send_and_check() -> None:
    result = planned(given(asked()))
    config = result.desired[CONFIG]["data"]["haproxy.cfg"]
    for ref in (ENGINES, PREFILLS):
        assert asked_key(result.desired[ref]["spec"]["template"])
    assert result.engine_key is not None
    assert "server-template p 32 qwen-prefill.default.svc.cluster.local:8000" in config
    assert "server-template e 32 qwen-engines.default.svc.cluster.local:8000" in config
    assert config.count("secure_memcmp(txn.engine_key)") == 1


def test_engines_that_serve_wait_for_routers_that_send_the_key() -> None:
    """Without it the middleware could ask nobody, and requests of the former routers would be refused."""
    before = planned(given(inference_deployment()))
    live = [{**manifest, "metadata": {**manifest["metadata"], "uid": "u"}} for manifest in before.desired.values()]
    router = pod_view(pod(name="r", component=ROUTER, status=ready_pod()), component=ROUTER)
    during = planned(given(asked(), *live, pods=(router,)))
    assert during.desired[ENGINES]["spec"]["template"] == before.desired[ENGINES]["spec"]["template"]
    assert "backend prefill" in during.desired[CONFIG]["data"]["haproxy.cfg"]
    after = planned(given(asked(), *live, pods=(replace(router, engine_key="qwen-engine-key"),)))
    assert told(after, ENGINES)["role"] == "decode"


def test_the_number_of_prefill_engines_follows_their_own_demand() -> None:
    """By the operator, also where an HPA decides the number of the others."""
    others = {"backend": "HPA", "maxReplicas": 4, "targetConcurrency": 5, "objective": {"ttft": "8s"}}
    raw = asked({"prefill": {"autoscaling": {"maxReplicas": 6}}}, autoscaling={**others, "scaleDownDelay": "2m"})
    result = planned(given(raw))
    (found,) = result.scaling
    assert (found.role, found.of_prompts, found.bypasses_routers, found.share) == (PREFILL, True, False, 1)
    limits, target = found.settings, found.target
    assert (limits.min_replicas, limits.max_replicas, limits.scale_down_seconds) == (0, 6, 120)
    assert (target.objective.ttft, target.bound) == (6, TargetBound.FIRST_TOKEN)
    assert Ref(HORIZONTAL_POD_AUTOSCALER, KEY.namespace, "qwen") in result.desired
    for number in (0, 5):
        decision = ScalingResult(Decision(number, Bound.DEMAND, Terms(8, 6, 0), target_concurrency=8))
        decided = planned(given(raw, scaling={PREFILL: decision}))
        assert [decided.desired[ref]["spec"]["replicas"] for ref in (ENGINES, PREFILLS)] == [1, number]
        assert told(decided, ENGINES) == told(result, ENGINES)


def test_prompts_are_sent_from_the_break_even_of_the_plan_on_unless_it_is_stated() -> None:
    for network, tokens in (({}, 1024), ({"gigabitsPerSecond": 100}, 862), ({"resource": "rdma/ib"}, 1218)):
        found = given(asked({"network": network}))
        result = planned(found)
        assert told(result, ENGINES)["tokens"] == str(tokens)
        sized = report(found, result, []).status.condition(ConditionType.SIZED)
        assert sized
        assert f"compute prompts of {tokens:,} tokens and more; the KV cache of one is" in sized.message
        assert sized.message.count("compute prompts of") == 1, "of the engines that answer"


def test_sizes_say_what_engines_of_an_older_release_send(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = asked({"network": {"gigabitsPerSecond": 100}})
    with monkeypatch.context() as former:
        former.setattr("inference_operator.pipeline.templates.least_prompt", lambda *_: 700)
        before = planned(given(raw))
    live = [{**manifest, "metadata": {**manifest["metadata"], "uid": "u"}} for manifest in before.desired.values()]
    template = pod_template_hash(before.desired[ENGINES]["spec"]["template"]["metadata"])
    engine = PodView("e", ENGINE, NOW, ready=True, terminating=False, failed=False, problem=None, template=template)
    for pods, tokens in (((engine,), "700"), ((), "862")):
        found = given(raw, *live, pods=pods)
        sized = report(found, outcome(found), []).status.condition(ConditionType.SIZED)
        assert sized
        assert f"compute prompts of {tokens} tokens and more" in sized.message
        assert "breaks even from 862 tokens on" in sized.message


@pytest.mark.parametrize(
    ("apart", "decode", "prefill"),
    [
        ({}, "714d79f59c04f7f4", "2c0c38f5d7599f3b"),
        ({"minPromptTokens": 2000}, "7affb79d7326814f", "2c0c38f5d7599f3b"),
        ({"network": {"resource": "rdma/ib"}}, "3f912990d421880f", "7047f9f5a51eab9a"),
    ],
    ids=str,
)
def test_an_upgrade_restarts_no_engines_apart(apart: Manifest, decode: str, prefill: str) -> None:
    """Hashes are those from when 1,024 tokens were the default."""
    assert [inputs_hash({**APART, **apart}, ref) for ref in (ENGINES, PREFILLS)] == [decode, prefill]


def test_the_default_number_of_tokens_has_an_effect_where_it_is_stated() -> None:
    assert inputs_hash({**APART, "minPromptTokens": 1024}, ENGINES) != inputs_hash(APART, ENGINES)


def test_the_speed_of_the_network_is_no_input_of_prefill_engines() -> None:
    """It moves the break-even, of which only engines that answer are told; a stated length moves none."""
    for least, rolls in ({}, (ENGINES,)), ({"minPromptTokens": 2000}, ()):
        slow, fast = ({**APART, **least, "network": {"gigabitsPerSecond": speed}} for speed in (100, 400))
        assert inputs_hash(slow, PREFILLS) == inputs_hash(fast, PREFILLS)
        templates = [
            {ref: planned(given(asked(apart))).desired[ref]["spec"]["template"] for ref in ALL}
            for apart in (slow, fast)
        ]
        assert tuple(ref for ref in ALL if templates[0][ref] != templates[1][ref]) == rolls


def inputs_hash(apart: Manifest, ref: Ref) -> str:
    pinned = ENGINE_PIN.read(planned(given(asked(apart))).desired[ref])
    assert pinned
    return pinned.inputs_hash


def test_a_network_that_is_too_slow_for_the_shortest_prompt_is_refused_with_the_arithmetic() -> None:
    slow: Manifest = {"network": {"gigabitsPerSecond": 1}, "minPromptTokens": 4000}
    assert refusal(asked(slow)) == (
        "spec.disaggregation.network.gigabitsPerSecond: The KV cache of 4,000 prompt tokens is 0.55 GiB and takes 4.7 s"
        " over 1 Gbit/s, more than a quarter of the 2 s to the first token. Name a faster network or its speed, allow a"
        " longer `spec.autoscaling.objective.ttft`, or remove `spec.disaggregation`."
    )
    longer = {"maxReplicas": 2, "objective": {"ttft": "19s"}}
    assert isinstance(outcome(given(asked(slow, autoscaling=longer))), Planned)
    assert isinstance(outcome(given(asked({**slow, "minPromptTokens": 400}))), Planned)


def test_engines_that_serve_over_a_slow_network_are_not_refused_by_an_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = asked({"network": {"gigabitsPerSecond": 1}, "minPromptTokens": 4000})
    with monkeypatch.context() as former:
        former.setattr("inference_operator.pipeline.disaggregation._of_network", lambda *_: None)
        before = planned(given(slow))
    live = [{**manifest, "metadata": {**manifest["metadata"], "uid": "u"}} for manifest in before.desired.values()]
    assert isinstance(outcome(given(slow, *live)), Planned)
    slower = asked({"network": {"gigabitsPerSecond": 1}, "minPromptTokens": 4001})
    assert isinstance(outcome(given(slower, *live)), Refused), "an edit is looked at"


def test_only_the_own_engines_and_routers_reach_the_ports() -> None:
    result = planned(given(asked()))
    for name, port, expected in (
        ("qwen-prefill", 8000, [ROUTER, "operator"]),
        ("qwen-prefill", 5600, [ENGINE]),
        ("qwen-prefill", 20000, [ENGINE]),
        ("qwen-prefill", 20063, [ENGINE]),
        ("qwen-prefill", 20064, []),
        ("qwen-engine", 8000, [ROUTER, "operator"]),
        ("qwen-engine", 5600, []),
        ("qwen-engine", 20063, [PREFILL]),
        ("qwen-router", 8081, [ENGINE]),
        ("qwen-router", 8080, ["everybody"]),
        ("qwen-router", 9100, ["everybody"]),
    ):
        assert peers(result, name, port) == expected, (name, port)


@pytest.mark.parametrize(
    ("own", "rolls"),
    [
        ({"replicas": 16}, ()),
        ({"replicas": 31}, ()),
        ({"replicas": 32}, (ROUTERS,)),
        ({"engine": {"maxNumSeqs": 8}}, (PREFILLS, ROUTERS)),
        (None, (ENGINES, PREFILLS, ROUTERS)),
    ],
    ids=str,
)
def test_what_a_change_of_prefill_engines_restarts(own: Manifest | None, rolls: tuple[Ref, ...]) -> None:
    """All at once, also where the field is removed: prompts are local meanwhile."""
    before = planned(given(asked()))
    live = [{**manifest, "metadata": {**manifest["metadata"], "uid": "u"}} for manifest in before.desired.values()]
    spec = inference_deployment() if own is None else asked({"prefill": {**APART["prefill"], **own}})
    after = planned(given(spec, *live))
    templates = [
        {ref: found.desired[ref]["spec"]["template"] if ref in found.desired else None for ref in ALL}
        for found in (before, after)
    ]
    assert tuple(ref for ref in ALL if templates[0][ref] != templates[1][ref]) == rolls
    assert (PREFILLS in after.desired) == (own is not None)


def test_fields_of_prefill_engines_move_no_other_engine() -> None:
    own = {
        "prefill": {"engine": {"args": ["--enforce-eager"], "maxNumSeqs": 8}, "hardware": {"gpu": {"memory": "40Gi"}}}
    }
    before, after = planned(given(asked())), planned(given(asked(own)))
    assert before.desired[ENGINES]["spec"]["template"] == after.desired[ENGINES]["spec"]["template"]
    assert {"--enforce-eager", "--max-num-seqs=8"} <= {*arguments(after, PREFILLS)}
    assert told(after, ENGINES)["revision"] == told(after, PREFILLS)["revision"]


def test_the_network_gives_both_roles_their_devices() -> None:
    found = planned(given(asked({"network": {"resource": "rdma/ib", "count": 2, "ipcLock": True}})))
    for ref in (ENGINES, PREFILLS):
        container = found.desired[ref]["spec"]["template"]["spec"]["containers"][0]
        assert container["resources"]["limits"]["rdma/ib"] == "2"
        assert "IPC_LOCK" in json.dumps(container["securityContext"])
    over_tcp = planned(given(asked({"network": {"interface": "net1"}})))
    for ref in (ENGINES, PREFILLS):
        env = over_tcp.desired[ref]["spec"]["template"]["spec"]["containers"][0]["env"]
        assert {"name": "UCX_NET_DEVICES", "value": "net1"} in env


def test_without_the_field_nothing_is_apart() -> None:
    result = planned(given(inference_deployment()))
    assert [role.name for role in result.roles] == [ENGINE]
    assert "8081" not in json.dumps([*result.desired.values()])


def of_prefill(**own: Any) -> Manifest:  # noqa: ANN401 - fields of the engines of prompts
    return {"disaggregation": {"prefill": own}}


def over(network: Manifest) -> Manifest:
    return {"disaggregation": {"network": network}}


ON_L4: Manifest = {"gpu": {"products": ["NVIDIA-L4"]}}
OWN_ARGUMENTS = "spec.disaggregation.prefill.engine.args"
RESERVED = (
    *("VLLM_USE_RUST_FRONTEND", "VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT", "UCX_TCP_PORT_RANGE"),
    *("UCX_TCP_KEEPIDLE", "PYTHONHASHSEED", "POD_IP"),
)
OF_BOTH = ("--seed=1", "--block-size=32", "--kv-cache-dtype=fp8", "--max-num-s=1", "--nosuch", "-O2")
COMBINED: tuple[tuple[str, Manifest], ...] = (
    ("spec.engine.kind", {"engine": {"kind": "Transformers"}}),
    ("spec.router.strategy", {"router": {"strategy": "External"}}),
    ("spec.engine.adapterSlots", {"engine": {"adapterSlots": 2}, "cache": {}}),
    ("spec.engine.kvOffload", {"engine": {"kvOffload": {"memory": "8Gi"}}}),
    ("spec.engine.speculative", {"engine": {"speculative": {"method": "Ngram"}}}),
    ("spec.parallelism.nodes", {"parallelism": {"nodes": 2}}),
    ("spec.parallelism.pipeline", {"parallelism": {"pipeline": 2}}),
    ("spec.disaggregation.prefill.parallelism.pipeline", of_prefill(parallelism={"pipeline": 2})),
    ("spec.parallelism.data", {"parallelism": {"data": 2}}),
    ("spec.engine.args", {"engine": {"args": ["--api-server-count=2"]}}),
    ("spec.engine.args", {"engine": {"args": ['--kv-transfer-config={"kv_connector": "Other"}']}}),
    ("spec.engine.image", {"engine": {"image": "docker.io/vllm/vllm-openai:v0.11.0"}}),
    *((f"spec.engine.env[{name}]", {"engine": {"env": [{"name": name, "value": "1"}]}}) for name in RESERVED),
    ("spec.disaggregation.network.resource", over({"resource": "nvidia.com/gpu", "count": 8})),
    (
        "spec.engine.resources.limits[rdma/ib]",
        {**over({"resource": "rdma/ib"}), "engine": {"resources": {"limits": {"rdma/ib": "1"}}}},
    ),
    (
        "spec.engine.env[UCX_NET_DEVICES]",
        {**over({"interface": "net1"}), "engine": {"env": [{"name": "UCX_NET_DEVICES", "value": "net2"}]}},
    ),
    *((f"{OWN_ARGUMENTS}[1]", of_prefill(engine={"args": ["--enforce-eager", one]})) for one in OF_BOTH),
)


@pytest.mark.parametrize(("field", "spec"), COMBINED, ids=lambda value: value if isinstance(value, str) else "")
def test_what_does_not_go_together_is_refused_by_its_field(field: str, spec: Manifest) -> None:
    start = inputs(inference_deployment()).settings
    settings = start.model_copy(update={"allowed_arguments": ("--kv-transfer-config", "--api-server-count")})
    assert refusal(inference_deployment(**{"disaggregation": APART, **spec}), settings=settings).startswith(
        f"{field}: "
    )


@pytest.mark.parametrize(
    ("apart", "spec"),
    [
        ({"prefill": {"parallelism": {"pipeline": 1}}}, {"hardware": ON_L4, "engine": {"profile": "Throughput"}}),
        ({"prefill": {"hardware": ON_L4}}, {}),
    ],
    ids=["decode", "prefill"],
)
def test_stages_that_a_plan_chose_are_refused(apart: Manifest, spec: Manifest) -> None:
    """For throughput, GPUs without NVLink get stages by themselves."""
    l4 = node_view(node("l4", gpus=8, labels={"nvidia.com/gpu.product": "NVIDIA-L4"}))
    model = {"source": "hf://Qwen/Qwen3-32B"}
    nodes = (l4, *NODES)
    message = refusal(asked(apart, model=model, **spec), nodes=nodes)
    assert message.startswith("spec.parallelism.pipeline: ")
    assert ("engines that compute prompts" in message) == (not spec)
    cured = spec | {"parallelism": {"tensor": 8, "pipeline": 1}}
    assert isinstance(outcome(given(asked(apart, model=model, **cured), nodes=nodes)), Planned)


def test_own_arguments_are_options_of_the_scheduler_and_of_memory_that_need_no_right() -> None:
    assert {option for option in OF_ONE_ROLE if CLASSES.is_harmless(option)} == OF_ONE_ROLE
    own = ["--no-enable-chunked-prefill", "--scheduling-policy", "fcfs"]
    assert {*own} <= {*arguments(planned(given(asked({"prefill": {"engine": {"args": own}}}))), PREFILLS)}
    message = refusal(asked({"prefill": {"engine": {"args": ["--seed=1"]}}}))
    assert message.endswith("Set it in `spec.engine.args`, which both roles have.")


@pytest.mark.parametrize(("stated", "own", "tensor"), [(2, {"tensor": 4}, 4), (2, {"pipeline": 1}, 2), (2, {}, 2)])
def test_sizes_of_prefill_engines_are_those_of_the_others_unless_they_are_stated(
    stated: int, own: Manifest, tensor: int
) -> None:
    result = planned(given(asked({"prefill": {"parallelism": own}}, parallelism={"tensor": stated, "pipeline": 1})))
    assert [role.plan.plan.parallel.tensor for role in result.roles] == [stated, tensor]
    assert [role.context.spec.stated.parallelism.pipeline for role in result.roles] == [1, 1]


def test_arguments_of_prefill_engines_need_no_right_that_nobody_checks() -> None:
    message = refusal(asked({"prefill": {"engine": {"args": ["--seed=1", "--middleware=os.system"]}}}))
    assert message.startswith("spec.disaggregation.prefill.engine.args[1]: Only arguments that everybody may set")


def test_the_policy_counts_the_gpus_of_both_roles() -> None:
    start = inputs(inference_deployment()).settings
    small, large = asked(replicas=2), asked(replicas=2, model={"source": "hf://Qwen/Qwen3-32B"})
    needed = sum(2 * role.plan.plan.gpus_per_replica for role in planned(given(large)).roles)
    for raw, most, said in (
        (small, 3, "and this asks for at least 4."),
        (
            large,
            needed - 1,
            f"and this needs {needed}: 2 engines of {needed // 4} each, and {needed // 2} of the other",
        ),
    ):
        policy = AdministratorPolicy.model_validate({"gpus": {"most": most}})
        assert said in refusal(raw, settings=start.model_copy(update={"policy": policy}))
        policy = AdministratorPolicy.model_validate({"gpus": {"most": most + 1}})
        assert isinstance(outcome(given(raw, settings=start.model_copy(update={"policy": policy}))), Planned)


def test_without_keys_of_engines_it_is_refused() -> None:
    settings = inputs(inference_deployment()).settings.model_copy(update={"engine_keys": False})
    assert "`engineKeys`" in refusal(asked(), settings=settings)


@pytest.mark.parametrize(
    ("source", "args", "why"),
    [
        ("hf://openai/gpt-oss-20b", (), "which layers keep different things"),
        ("hf://Qwen/Qwen3-8B", ("--runner=pooling",), "get no answer of text"),
        ("hf://Qwen/Qwen2.5-VL-7B-Instruct", (), "images, video and sound"),
        ("hf://nvidia/Nemotron-H-56B-Base-8K", (), "which layers keep different things"),
    ],
)
def test_models_whose_cache_cannot_be_sent_are_refused(source: str, args: tuple[str, ...], why: str) -> None:
    result = outcome(given(asked(model={"source": source}, engine={"args": args})))
    assert isinstance(result, Refused)
    assert why in result.refusal.message
    assert result.refusal.reason is Reason.INVALID_SPEC
