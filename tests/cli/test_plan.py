"""`infd plan`: the operator's sizing decision without a cluster."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from inference_operator.cli.offline import offline_inputs
from inference_operator.engines.registry import ENGINES
from inference_operator.jobs.inspection_result import result_text
from inference_operator.manifest import Manifest
from inference_operator.models.checkpoint import Weights
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.settings import Settings
from inference_operator.sizing.shape import ParallelSizes
from tests.cli.conftest import Infd, only
from tests.testing.builders import H100, inference_deployment, inputs, model_known, planned
from tests.testing.collected import entry
from tests.testing.stored_answers import ApiServer, listing

SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"
QUICKSTART = SAMPLES / "quickstart.yaml"


def test_the_plan_table_has_the_sizes_and_a_summary(infd: Infd) -> None:
    status, output, complaints = infd("plan", "-f", str(QUICKSTART), "--gpu", "L4:4")
    assert (status, complaints) == (0, "")
    head, row, sentence = output.splitlines()
    assert head.split()[:3] == ["NAME", "GPU", "TENSOR"]
    assert row.split() == ["qwen", "L4", "2", "1", "2", "40,960", "256", "0.92", "157,120"]
    assert sentence.startswith("qwen: Tensor parallel 2 on L4: of 20.3 GiB each, weights 7.6")


@pytest.mark.parametrize(
    ("model", "engine", "shown"),
    [
        ("BAAI/bge-m3", {}, (" 0.92 ", "left, as this model has no KV cache. That is 256 requests of 8,192")),
        ("Qwen/Qwen3-30B-A3B", {"kind": "SGLang"}, (" 0.82 ", "requests of 40,960 tokens at once, or 1,0")),
        ("Qwen/Qwen3-8B", {"maxModelLen": 1024}, (" 1,024 ", "requests of 1,024 tokens at once.")),
    ],
)
def test_numbers_of_the_plan_read_as_numbers(
    infd: Infd, tmp_path: Path, model: str, engine: Manifest, shown: tuple[str, str]
) -> None:
    resource = yaml.safe_load(QUICKSTART.read_text())
    resource["spec"] = {"model": {"source": f"hf://{model}"}, "engine": engine}
    file = tmp_path / "resource.yaml"
    file.write_text(yaml.safe_dump(resource))
    _, output, _ = infd("plan", "-f", str(file), "--gpu", "A100-80GB:4")
    assert all(words in output for words in shown)


def test_the_explained_arithmetic_of_plan_names_the_origin_of_each_term(infd: Infd) -> None:
    _, output, _ = infd("plan", "-f", str(QUICKSTART), "--gpu", "L4:4", "-v")
    lines = [line.split() for line in output.splitlines()]
    assert ["weights", "7.64", "GiB", "counted", "from", "config.json"] in lines
    assert "qwen: runner-up: tensor parallel " in output
    assert "qwen: Qwen3ForCausalLM: 15.3 GiB of weights" in output
    assert "requests of one engine: 5 CPUs, memory 20Gi, disk 18Gi" in output


def test_plan_prints_the_rights_that_the_resource_requires_of_its_writer(infd: Infd, tmp_path: Path) -> None:
    resource = yaml.safe_load(QUICKSTART.read_text())
    resource["spec"]["engine"] = {"image": "docker.io/vllm/vllm-openai:v0.32.0", "args": ["--seed=1"]}
    resource["spec"]["model"]["tokenSecretRef"] = {"name": "hub", "key": "token"}
    file = tmp_path / "resource.yaml"
    file.write_text(yaml.safe_dump(resource))
    _, output, _ = infd("plan", "-f", str(file), "--gpu", "L4:4")
    assert "qwen: who applies it needs the right to create pods, for spec.engine.image" in output
    pods = "create pods or use secrets/hub or get secrets/hub"
    assert f"qwen: who applies it needs the right to {pods}, for spec.model.tokenSecretRef.name" in output
    _, output, _ = infd("plan", "-f", str(file), "--gpu", "L4:4", "-o", "json")
    assert only(output)["rights"] == [
        {"field": "spec.engine.image", "anyOf": ["create pods"]},
        {"field": "spec.model.tokenSecretRef.name", "anyOf": ["create pods", "use secrets/hub", "get secrets/hub"]},
    ]


def test_plan_names_the_known_vulnerabilities_of_an_image(infd: Infd, tmp_path: Path) -> None:
    resource = yaml.safe_load(QUICKSTART.read_text())
    file = tmp_path / "resource.yaml"
    asked = ("plan", "-f", str(file), "--gpu", "L4:4")
    notice = "vLLM 0.31.0 has a known vulnerability: CVE-2026-115911. Use an image of vLLM 0.32.0 or later."
    for image, found in (("vllm/vllm-openai:v0.31.0", notice), ("vllm/vllm-openai:v0.32.0", "")):
        resource["spec"]["engine"] = {"image": image}
        file.write_text(yaml.safe_dump(resource))
        assert (f"qwen: {notice}" in infd(*asked)[1]) is bool(found)
        assert only(infd(*asked, "-o", "json")[1]).get("advisories", "") == found


@pytest.mark.parametrize(
    ("engine", "cure"),
    [
        ({}, "Let each user send an own, secret `cache_salt` with all requests, or set `--no-enable-prefix-caching`."),
        ({"args": ["--no-enable-prefix-caching"]}, ""),
        ({"args": ["--no-enable-prefix-caching", "--enable-prefix-caching"]}, "Let each user send"),
        ({"kind": "SGLang"}, "To end that, set `--disable-radix-cache`."),
        ({"kind": "Transformers"}, ""),
    ],
)
def test_plan_says_once_that_users_with_keys_share_a_cache_of_prefixes(infd: Infd, engine: Manifest, cure: str) -> None:
    resource = yaml.safe_load(QUICKSTART.read_text())
    resource["spec"]["engine"] = engine
    said = {}
    for router in ({}, {"keys": {"secretRef": {"name": "keys"}}}):
        resource["spec"]["router"] = router
        asked = ("plan", "-f", "-", "--gpu", "L4:4")
        said[bool(router)] = infd(*asked, stdin=yaml.safe_dump(resource))[1]
        found = only(infd(*asked, "-o", "json", stdin=yaml.safe_dump(resource))[1])
        assert bool(found.get("sharedPrefixes")) is bool(router and cure)
    assert "share the engines' cache" not in said[False]
    assert ("qwen: All users with a key share the engines' cache of prefixes" in said[True]) is bool(cure)
    assert cure in said[True]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_plan_as_json_equals_the_plan_in_the_status(infd: Infd, form: str) -> None:
    _, output, _ = infd("plan", "-f", str(QUICKSTART), "--gpu", "L4:4", "-o", form)
    document = only(output)
    assert (document["name"], document["planned"]) == ("qwen", True)
    plan = document["plan"]
    assert (plan["tensorParallelSize"], plan["maxModelLen"], plan["gpu"]) == (2, 40960, "L4")
    result = outcome(offline_inputs(yaml.safe_load(QUICKSTART.read_text()), Settings(gpu_offers=("L4:4",)), ENGINES))
    assert isinstance(result, Planned)
    assert plan["perGpu"]["kvCacheTokens"] == result.plan.plan.per_gpu.kv_cache_tokens  # type: ignore[union-attr]


def test_plan_fails_with_the_reason_if_the_model_does_not_fit(infd: Infd, tmp_path: Path) -> None:
    llama, known = tmp_path / "model.json", entry("meta-llama/Llama-3.3-70B-Instruct")
    assert known
    weights = Weights(round(131.4 * 2**30), "30 files of model.safetensors.index.json")
    llama.write_text(result_text(replace(known, weights=weights)))
    sample = (SAMPLES / "llama-70b-tp8.yaml").read_text().replace("tensor: 8", "tensor: 8\n    nodes: 1")
    command = ("plan", "-f", "-", "--gpu", "T4:8", "--model", str(llama))
    status, output, complaints = infd(*command, "-o", "table", stdin=sample)
    assert status == 1
    assert output.splitlines()[1].split() == ["llama-70b", "-"]
    assert complaints.startswith("llama-70b: spec.parallelism.nodes: tensor parallel 8 on T4 offers 13.4 GiB each")
    _, output, _ = infd(*command, "-o", "json", stdin=sample)
    assert only(output)["planned"] is False


def test_the_plan_table_has_the_nodes_of_a_group(infd: Infd) -> None:
    raw = QUICKSTART.read_text().replace("Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-R1")
    status, output, _ = infd("plan", "-v", "-f", "-", "--gpu", "H100:8", stdin=raw)
    assert status == 0
    assert output.splitlines()[1].split()[:5] == ["qwen", "H100-80GB", "8", "2", "2x8"]
    assert "qwen: Tensor parallel 8, pipeline parallel 2 over 2 nodes on H100-80GB: of 72.8 GiB each" in output
    assert "qwen: requests of each of the 2 pods of one engine: 11 CPUs" in output
    found = only(infd("plan", "-f", "-", "--gpu", "H100:8", "-o", "json", stdin=raw)[1])["plan"]
    assert (found["nodes"], found["gpusPerReplica"], found["pipelineParallelSize"]) == (2, 16, 2)


def test_plan_of_several_resources_gives_a_json_list(infd: Infd) -> None:
    two = f"{QUICKSTART.read_text()}\n---\n{(SAMPLES / 'cpu-oci.yaml').read_text()}"
    _, output, _ = infd("plan", "-f", "-", "-o", "json", "--gpu", "H100", stdin=two)
    assert [(one["name"], one["plan"]["device"]) for one in json.loads(output)["items"]] == [
        ("qwen", "GPU"),
        ("tiny", "CPU"),
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("plan", "-f", "nowhere.yaml"), "nowhere.yaml: No such file or directory."),
        (
            ("plan", "-f", str(QUICKSTART), "--gpu", "abacus:4"),
            "--gpu: `abacus:4` is not known. Known kinds: T4, V100-16GB,",
        ),
        (("render", "-f", str(QUICKSTART), "--gpu", "L4:0"), "--gpu: `L4:0` is not a kind and number of GPUs."),
        (("plan", "-f", str(QUICKSTART), "--gpu", "L4:400"), "--gpu: `L4:400` is not a kind and number of GPUs."),
    ],
)
def test_invalid_input_of_plan_is_reported_on_a_single_line(
    infd: Infd, arguments: tuple[str, ...], complaint: str
) -> None:
    status, output, complaints = infd(*arguments)
    assert (status, output) == (2, "")
    assert complaints.startswith(complaint)
    assert complaints.count("\n") == 1


@pytest.mark.parametrize("command", ["plan", "render"])
def test_plan_without_known_gpus_names_the_option_for_gpus(infd: Infd, command: str) -> None:
    status, _, complaints = infd(command, "-f", str(QUICKSTART))
    assert status == 1
    assert complaints.startswith("qwen: spec.hardware.gpu: No GPU is known")
    assert complaints.endswith("On the command line, declare GPUs with `--gpu L4:4`.\n")


def test_plan_shows_the_namespace_of_a_resource(infd: Infd) -> None:
    text = QUICKSTART.read_text().replace("name: qwen", "name: qwen\n  namespace: team-a")
    _, output, _ = infd("plan", "-f", "-", "--gpu", "L4:4", stdin=text)
    assert output.splitlines()[1].startswith("team-a/qwen  L4")
    _, output, _ = infd("plan", "-f", "-", "--gpu", "L4:4", "-o", "json", stdin=text)
    assert (only(output)["namespace"], only(output)["name"]) == ("team-a", "qwen")


def test_plan_of_a_paused_resource_fails_and_names_the_field(infd: Infd) -> None:
    paused = f"{QUICKSTART.read_text()}\n  paused: true\n"
    status, output, complaints = infd("plan", "-f", "-", "--gpu", "L4:4", stdin=paused)
    assert (status, complaints) == (
        1,
        "qwen: spec.paused: is true, so no objects would be created. Set it to false, or remove it.\n",
    )
    assert output.splitlines()[1].split() == ["qwen", "-"]


def test_columns_of_the_plan_table_fit_their_widest_value(infd: Infd) -> None:
    name = "q" * 55
    two = f"{QUICKSTART.read_text()}\n---\n{QUICKSTART.read_text().replace('name: qwen', f'name: {name}')}"
    _, output, _ = infd("plan", "-f", "-", "--gpu", "L4:4", stdin=two)
    head, *rows = output.splitlines()[:3]
    assert {row.index("L4") for row in rows} == {head.index("GPU")}
    assert all(len(line) <= 120 for line in (head, *rows))


def test_plan_counts_a_mig_slice_with_the_memory_of_the_slice(infd: Infd) -> None:
    for name in ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb:7", "A100-80GB 1g.10gb:7"):
        status, output, complaints = infd("plan", "-f", str(QUICKSTART), "--gpu", name)
        assert (status, output.splitlines()[1].split()) == (1, ["qwen", "-"])
        assert "on A100-80GB 1g.10gb offers 9.0 GiB each" in complaints


KUBECONFIG = """
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: x}}]
current-context: a
"""
UNKNOWN_HOST = KUBECONFIG.replace("http://127.0.0.1:9", "https://otter.invalid:6443")
NO_CLUSTER = "--cluster: There is no cluster to work in: no ServiceAccount, and no kubeconfig with a current context."


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, NO_CLUSTER),
        ("", NO_CLUSTER),
        ("a: b: c", NO_CLUSTER),
        ("[]", NO_CLUSTER),
        ("clusters: 7\ncontexts: [7]\nusers: []\ncurrent-context: a\n", NO_CLUSTER),
        (KUBECONFIG, "--cluster: the API server at 127.0.0.1:9 refused the connection."),
        (UNKNOWN_HOST, "--cluster: the host otter.invalid of the API server has no address."),
    ],
)
def test_plan_reports_an_unreachable_cluster_on_a_single_line(
    infd: Infd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, complaint: str
) -> None:
    if text is not None:
        (tmp_path / "config").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    status, output, complaints = infd("plan", "-f", str(QUICKSTART), "--cluster")
    assert (status, output) == (5 if text in (KUBECONFIG, UNKNOWN_HOST) else 2, "")
    assert complaints.startswith(complaint)
    assert complaints.endswith("Check that `kubectl get nodes` works with the same kubeconfig.\n")
    assert complaints.count("\n") == 1


def test_plan_says_where_the_facts_of_the_model_come_from(infd: Infd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERENCE_OPERATOR_MODEL_INSPECTION", "Always")
    status, output, said = infd("plan", "-f", str(QUICKSTART), "--gpu", "L4:4", "-o", "table", "-v")
    assert status == 0
    assert "up to 40,960 tokens. From the catalogue (ai-dynamo/aiconfigurator@" in output
    assert "`HF_HUB_OFFLINE` is set, and the model is not in the cache." in said
    assert "The facts of the catalogue are used" in said


NODES, CONFIG_MAPS = "/api/v1/nodes", "/api/v1/configmaps"
DEPLOYMENTS, STATEFUL_SETS = "/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets"


def test_plan_for_a_cluster_uses_the_nodes_and_the_inspection_results_there(
    infd: Infd, server: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERENCE_OPERATOR_MODEL_INSPECTION", "Always")
    quickstart = yaml.safe_load(QUICKSTART.read_text())
    server[NODES] = listing(H100)
    server[DEPLOYMENTS] = server[STATEFUL_SETS] = listing()
    server[CONFIG_MAPS] = listing(model_known({**quickstart, "metadata": {"namespace": "default", "name": "qwen"}}))
    status, output, complaints = infd("plan", "-f", str(QUICKSTART), "--cluster", "-o", "json")
    assert (status, complaints) == (0, "")
    planning = only(output)
    assert planning["plan"]["gpu"] == "H100-80GB"
    assert "From its files (" in planning["model"]


def running(engine: Manifest) -> Manifest:
    """The Deployment of the quickstart's engines, planned by earlier sizing rules."""
    raw = {**yaml.safe_load(QUICKSTART.read_text()), "metadata": {"namespace": "default", "name": "qwen"}}
    made = planned({**raw, "spec": {**raw["spec"], "engine": engine}})
    found = next(one for one in made.desired.values() if PLAN_ANNOTATION.engine(one))
    text = PLAN_ANNOTATION.write(
        replace(made.plan, rules=2, plan=replace(made.plan.plan, parallel=ParallelSizes(4), gpus_per_replica=4))
    )
    found["metadata"]["annotations"][PLAN_ANNOTATION.key] = text
    return found


def test_plan_for_a_cluster_shows_what_becomes_of_the_plan_that_runs(infd: Infd, server: dict[str, bytes]) -> None:
    server[NODES], server[CONFIG_MAPS], server[STATEFUL_SETS] = listing(H100), listing(), listing()
    server[DEPLOYMENTS] = listing(running({}))
    status, output, _ = infd("plan", "-f", str(QUICKSTART), "--cluster")
    assert status == 0
    stays = (
        "qwen: runs with 4 x H100-80GB (tensor parallel 4), and stays so: its plan is pinned; a new resource would get"
    )
    assert f"{stays} 1 x H100-80GB (tensor parallel 1)" in output
    server[DEPLOYMENTS] = listing(running({"maxNumSeqs": 64}))
    status, output, _ = infd("plan", "-f", str(QUICKSTART), "--cluster", "-o", "json")
    assert only(output)["change"] == (
        "runs with 4 x H100-80GB (tensor parallel 4); this edit plans anew: 1 x H100-80GB (tensor parallel 1)"
        " (sizing rules 2, now 3)"
    )


def test_plan_for_a_cluster_finds_the_plan_of_an_engine_over_several_nodes(
    infd: Infd, server: dict[str, bytes]
) -> None:
    server[NODES], server[CONFIG_MAPS], server[DEPLOYMENTS] = listing(H100), listing(), listing()
    server[STATEFUL_SETS] = listing({**running({}), "kind": "StatefulSet"})
    status, output, _ = infd("plan", "-f", str(QUICKSTART), "--cluster")
    assert status == 0
    assert "qwen: runs with 4 x H100-80GB (tensor parallel 4), and stays so" in output


def test_plan_for_a_cluster_shows_that_another_kind_of_engine_is_a_rolling_update(
    infd: Infd, server: dict[str, bytes]
) -> None:
    server[NODES], server[CONFIG_MAPS], server[STATEFUL_SETS] = listing(H100), listing(), listing()
    server[DEPLOYMENTS] = listing(running({"kind": "Transformers"}))
    status, output, _ = infd("plan", "-f", str(QUICKSTART), "--cluster", "-o", "json")
    found = only(output)
    assert (status, found["engine"]) == (0, "VLLM")
    assert found["change"] == (
        "runs with 4 x H100-80GB (tensor parallel 4) on Transformers; this edit is a rolling update to 1 x H100-80GB"
        " (tensor parallel 1) on VLLM"
    )


def test_plan_for_a_cluster_needs_no_right_to_list_config_maps(infd: Infd, server: dict[str, bytes]) -> None:
    server[NODES] = listing(H100)
    server[DEPLOYMENTS] = server[STATEFUL_SETS] = listing()
    ApiServer.forbidden.add(CONFIG_MAPS)
    status, output, complaints = infd("plan", "-f", str(QUICKSTART), "--cluster", "-o", "json")
    assert (status, only(output)["plan"]["gpu"]) == (0, "H100-80GB")
    assert complaints.startswith("--cluster: ")
    assert complaints.endswith("So models are read from the hub.\n")


@pytest.mark.parametrize("path", ["$(HF_TOKEN)", "Qwen 8B", "a\nb", "a\x00b"])
def test_an_invalid_path_on_a_claim_is_refused_with_the_operators_message(infd: Infd, path: str) -> None:
    raw = inference_deployment(source=f"pvc://models/{path}")
    status, _, complaints = infd("plan", "-f", "-", "--gpu", "L4:4", stdin=json.dumps(raw))
    assert status == 1
    found = outcome(inputs(raw))
    assert isinstance(found, Refused)
    assert found.refusal.message in complaints


POLICY = json.dumps({"modelSources": {"allowed": ["hf://org/"], "message": "Ask platform@example.com."}})
REFUSAL = "qwen: spec.model.source: The policy of this cluster (`modelSources`) does not allow this source."


def test_plan_says_the_refusal_of_the_policy_that_the_variable_names(
    infd: Infd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERENCE_OPERATOR_POLICY", POLICY)
    status, _, complaints = infd("plan", "-f", str(QUICKSTART), "--gpu", "L4:4")
    assert status == 1
    assert complaints.startswith(REFUSAL)
    assert complaints.endswith("Ask platform@example.com.\n")


def test_plan_for_a_cluster_says_the_refusal_of_the_operators_policy(infd: Infd, server: dict[str, bytes]) -> None:
    container = {"name": "operator", "env": [{"name": "INFERENCE_OPERATOR_POLICY", "value": POLICY}]}
    operator = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "inference-operator", "namespace": "inference-operator-system"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    server[NODES], server[CONFIG_MAPS], server[STATEFUL_SETS] = listing(H100), listing(), listing()
    server[DEPLOYMENTS] = listing(operator)
    status, _, complaints = infd("plan", "-f", str(QUICKSTART), "--cluster")
    assert status == 1
    assert complaints.startswith(REFUSAL)
