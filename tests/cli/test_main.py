import hashlib
import json
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

from inference_operator import __version__
from inference_operator.admission.operator_policy import OperatorAccount, operator_policies
from inference_operator.admission.writer_policy import writer_policies
from inference_operator.api.crd import crd
from inference_operator.api.model_gateway import MODEL_GATEWAY_API
from inference_operator.api.prometheus import PrometheusSettings
from inference_operator.cli.main import run_command
from inference_operator.cli.parser import UsageError
from inference_operator.engines.registry import ENGINES
from tests.cli.conftest import Infd
from tests.testing.builders import model_known

SAMPLES = sorted((Path(__file__).parents[2] / "manifests" / "samples").glob("*.yaml"))
CATALOGUED = next(path for path in SAMPLES if path.stem == "quickstart")
GOOD = CATALOGUED.read_text()
HEADER = "apiVersion: inference-operator.dev/v1alpha1\nkind: InferenceDeployment\n"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_rendered(infd: Infd, sample: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_text(model_known(yaml.safe_load(sample.read_text()))["data"]["model.json"])
    gpus = ("--gpu", "RTX-4090:8", "--gpu", "A100-80GB:8")
    status, output, complaints = infd("render", "-f", str(sample), *gpus, "--model", str(model))
    assert (status, complaints) == (0, "")
    kinds = [document["kind"] for document in yaml.safe_load_all(output)]
    ordered = [kind for kind in kinds if kind in ("Service", "Deployment")]
    apart = "disaggregation" in yaml.safe_load(sample.read_text())["spec"]
    assert ordered == ["Service"] * (5 if apart else 3) + ["Deployment"] * (3 if apart else 2)
    assert kinds[0] in ("ConfigMap", "PersistentVolumeClaim")
    others = {"PodDisruptionBudget", "ConfigMap", "PersistentVolumeClaim", "NetworkPolicy"}
    assert set(kinds) <= {*ordered, *others}


@pytest.mark.parametrize("command", ["render", "plan"])
def test_an_unknown_model_is_refused_with_the_inspect_command_as_cure(infd: Infd, command: str) -> None:
    unknown = f"{HEADER}metadata: {{name: mine}}\nspec: {{model: {{source: 'pvc://models/mine'}}}}\n"
    status, _, complaints = infd(command, "-f", "-", "--gpu", "L4:4", stdin=unknown)
    assert status == 1
    assert complaints.startswith("mine: its model's files were not read, and the catalogue does not have it.")
    assert "`infd inspect -o json`" in complaints


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "model.json: No such file or directory."),
        ("{}", "is not an output of `infd inspect -o json`."),
        (
            '{"error":{"cause":"Gated","field":"hf://a/b","problem":"is gated.","cure":"Ask."}}',
            "hf://a/b: is gated. Ask.",
        ),
    ],
)
def test_a_model_file_without_model_facts_is_reported(infd: Infd, tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "model.json"
    if text:
        file.write_text(text)
    status, output, complaints = infd("render", "-f", str(CATALOGUED), "--model", str(file))
    assert (status, output) == (2, "")
    assert words in complaints


def test_render_reads_standard_input(infd: Infd) -> None:
    assert infd("render", "-f", "-", stdin=GOOD) == infd("render", "-f", str(CATALOGUED))


def test_rendered_objects_as_json_are_one_list(infd: Infd) -> None:
    listed = json.loads(infd("render", "-f", str(CATALOGUED), "-o", "json")[1])
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    assert listed["items"] == list(yaml.safe_load_all(infd("render", "-f", str(CATALOGUED))[1]))


def test_render_ignores_objects_of_other_kinds(infd: Infd) -> None:
    mixed = f"kind: Namespace\napiVersion: v1\n---\n{GOOD}\n---\n# nothing\n---\n- a list\n"
    assert infd("render", "-f", "-", stdin=mixed) == infd("render", "-f", "-", stdin=GOOD)


def test_valid_resources_are_rendered_beside_an_invalid_resource(infd: Infd) -> None:
    bad = f"{HEADER}metadata: {{name: bad}}\nspec: {{model: {{source: 'gs://b'}}}}\n"
    status, output, complaints = infd("render", "-f", "-", stdin=f"{bad}---\n{GOOD}")
    assert status == 1
    assert output == infd("render", "-f", "-", stdin=GOOD)[1]
    assert complaints.startswith("bad: spec.model.source: `gs://b` has no scheme")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (HEADER, "?: 2 mistakes. (1) metadata.name: must be a DNS-1035 label"),
        (f"{HEADER}metadata: 5\n", "?: 2 mistakes. (1) metadata.name: must be a DNS-1035 label"),
        (f"{HEADER}metadata: {{name: qwen}}\n", "qwen: spec.model: is required."),
        (f"{HEADER}metadata: {{name: qwen}}\nspec: text\n", "qwen: spec: "),
        (f"{HEADER}metadata: {{name: qwen}}\nspec: {{1: 2}}\n", "qwen: 2 mistakes. (1) spec.model: "),
        (f"{HEADER}metadata: {{name: vllm}}\nspec: {{model: {{source: 'hf://a/b'}}}}\n", "vllm: metadata.name: "),
    ],
)
def test_an_invalid_resource_is_reported_on_a_single_line(infd: Infd, text: str, complaint: str) -> None:
    status, output, complaints = infd("render", "-f", "-", stdin=text)
    assert (status, output) == (1, "")
    assert complaints.startswith(complaint)
    assert complaints.count("\n") == 1


def test_an_unreadable_file_is_named_in_the_error(infd: Infd, tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing.yaml", tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert infd("render", "-f", str(missing)) == (2, "", f"{missing}: No such file or directory.\n")
    assert infd("render", "-f", str(binary)) == (2, "", f"{binary}: is not UTF-8 text.\n")


NONE = "standard input: contains no InferenceDeployment of inference-operator.dev/v1alpha1."


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", f"{NONE} It is empty."),
        ("# nothing\n", f"{NONE} It is empty."),
        ("apiVersion: v1\nkind: Pod\n", f"{NONE} It contains Pod of v1."),
        (HEADER.replace("v1alpha1", "v1"), f"{NONE} It contains InferenceDeployment of inference-operator.dev/v1."),
        ("kind: 7\n", f"{NONE} It contains 7 of ?."),
        ("a: b: c\n", "standard input: is not valid YAML in line 1, column 5: mapping values are not allowed here."),
        ("a:\n\tb: c\n", "standard input: is not valid YAML in line 2, column 1: "),
        ("[" * 5000, "standard input: is not valid YAML"),
        ("a: \x00", "standard input: is not valid YAML."),
    ],
)
def test_a_file_without_a_resource_is_reported_with_its_content(infd: Infd, text: str, complaint: str) -> None:
    for command in ("render", "plan"):
        status, output, complaints = infd(command, "-f", "-", stdin=text)
        assert (status, output) == (2, "")
        assert complaints.startswith(complaint)
        assert complaints.count("\n") == 1


def test_render_reads_a_folder_and_several_files(infd: Infd, tmp_path: Path) -> None:
    gpus = ("--gpu", "L4:4")
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "pod.yml").write_text("apiVersion: v1\nkind: Pod\n")
    (tmp_path / "notes.txt").write_text("a: b: c")
    (tmp_path / "b.json").write_text(json.dumps(yaml.safe_load(GOOD)))
    once = infd("render", *gpus, "-f", str(CATALOGUED))
    assert infd("render", *gpus, "-f", str(tmp_path)) == (0, once[1] * 2, "")
    assert infd("render", *gpus, "-f", str(CATALOGUED), "-f", "-", stdin=GOOD) == (0, once[1] * 2, "")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert infd("render", "-f", str(empty))[2].endswith("It is empty.\n")


def test_render_reads_a_list_in_the_format_of_kubectl(infd: Infd) -> None:
    several = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(GOOD), {"kind": "Pod"}, 7]}
    assert infd("render", "-f", "-", stdin=yaml.safe_dump(several)) == infd("render", "-f", "-", stdin=GOOD)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ("replicas: '2'", "spec.replicas: must be an integer. Write it without quotes."),
        ("engine: {maxModelLen: '4096'}", "spec.engine.maxModelLen: must be an integer. Write it without quotes."),
        ("engine: {gpuMemoryUtilization: '0.9'}", "spec.engine.gpuMemoryUtilization: must be a number. Write it"),
        ("paused: 'true'", "spec.paused: must be `true` or `false`. Write it without quotes."),
        ("engine: {gpuMemoryUtilization: '2'}", "spec.engine.gpuMemoryUtilization: must be a number. Write it without"),
        ("engine: {maxAdapterRank: '16'}", "spec.engine.maxAdapterRank: must be an integer. Write it without quotes."),
        ("engine: {maxAdapterRank: 7}", "spec.engine.maxAdapterRank: `7` is not allowed. Use 1, 8, 16,"),
    ],
)
def test_numbers_in_quotes_are_refused_as_the_api_server_refuses_them(infd: Infd, fields: str, complaint: str) -> None:
    text = f"{HEADER}metadata: {{name: qwen}}\nspec:\n  model: {{source: 'hf://Qwen/Qwen3-8B'}}\n  {fields}\n"
    status, output, complaints = infd("render", "-f", "-", "--gpu", "L4:4", stdin=text)
    assert (status, output) == (1, "")
    assert complaints.startswith(f"qwen: {complaint}")


def test_integers_that_helm_writes_as_floats_are_taken(infd: Infd) -> None:
    fields = "replicas: 2.0\n  engine: {maxModelLen: 4.096e+03}\n"
    text = f"{HEADER}metadata: {{name: qwen}}\nspec:\n  model: {{source: 'hf://Qwen/Qwen3-8B'}}\n  {fields}"
    assert "must be an integer" not in infd("render", "-f", "-", "--gpu", "L4:4", stdin=text)[2]


def test_all_mistakes_of_types_are_named_at_once(infd: Infd) -> None:
    fields = 'replicas: "2"\n  drainTimeout: 300\n  engine: {maxModelLen: 32k, args: "--seed=1"}\n'
    text = f"{HEADER}metadata: {{name: Qwen}}\nspec:\n  model: {{source: 'hf://Qwen/Qwen3-8B'}}\n  {fields}"
    complaints = infd("render", "-f", "-", "--gpu", "L4:4", stdin=text)[2]
    assert complaints.startswith("Qwen: 5 mistakes. (1) ")
    names = ("metadata.name", "spec.replicas", "spec.drainTimeout", "spec.engine.maxModelLen", "spec.engine.args")
    assert [complaints.count(f") {name}: must be ") for name in names] == [1] * 5


def test_a_null_field_counts_as_an_absent_field(infd: Infd) -> None:
    text = f"{HEADER}metadata: {{name: qwen}}\nspec:\n  model: {{source: 'hf://Qwen/Qwen3-8B'}}\n"
    nulls = f"{text}  replicas:\n  engine: {{maxModelLen: }}\n"
    assert infd("render", "-f", "-", "--gpu", "L4", stdin=nulls) == infd("render", "-f", "-", "--gpu", "L4", stdin=text)


def test_an_invalid_setting_is_named_in_the_error(infd: Infd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERENCE_OPERATOR_DNS_STALENESS_SECONDS", "soon")
    status, output, complaints = infd("render", "-f", str(CATALOGUED))
    assert (status, output) == (2, "")
    assert complaints.startswith("INFERENCE_OPERATOR_DNS_STALENESS_SECONDS: ")
    assert complaints.count("\n") == 1


def test_the_crd_command_prints_the_crd_of_each_kind(infd: Infd) -> None:
    status, output, _ = infd("crd")
    assert status == 0
    assert list(yaml.safe_load_all(output)) == [crd(), crd(MODEL_GATEWAY_API)]


def test_the_policy_command_prints_the_admission_policy(infd: Infd) -> None:
    status, output, _ = infd("policy")
    assert status == 0
    assert list(yaml.safe_load_all(output)) == writer_policies(ENGINES.option_classes)


def test_the_policy_command_prints_the_policies_of_the_operators_own_account(infd: Infd) -> None:
    status, output, _ = infd("policy", "--operator")
    assert status == 0
    usual = OperatorAccount("inference-operator-system", "inference-operator")
    assert list(yaml.safe_load_all(output)) == operator_policies(usual)
    names = ("--namespace=a", "--name=b", "--account=c", "--pod-account=d", "--pod-account=e")
    prometheus = PrometheusSettings(url="https://prometheus.example")
    _, output, _ = infd("policy", "--operator", *names, f"--prometheus={prometheus.model_dump_json(by_alias=True)}")
    assert list(yaml.safe_load_all(output)) == operator_policies(OperatorAccount("a", "b", "c", ("d", "e"), prometheus))


def test_kubectl_finds_the_command_as_a_plugin() -> None:
    commands = {one.name: one.value for one in entry_points(group="console_scripts")}
    assert commands["kubectl-infd"] == commands["infd"] == "inference_operator.cli.main:main"


def test_ctrl_c_ends_a_command_with_the_status_of_shells() -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as end:
        run_command(interrupted, ())
    assert end.value.code == 130


def test_an_error_carries_nothing_out_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def wrong() -> int:
        raise UsageError("a\x1b]0;title\x07\nb")

    with pytest.raises(SystemExit):
        run_command(wrong, ())
    assert capsys.readouterr().err == "a\ufffd]0;title\ufffd\nb\n"


@pytest.mark.parametrize("form", [["-o", "json"], ["-ojson"], ["--output=yaml"], ["--output", "yaml"], ["-o=json"]])
def test_an_error_is_one_object_where_the_answer_is_for_programs(infd: Infd, form: list[str]) -> None:
    status, output, complaints = infd("plan", "-f", "/nowhere", *form)
    assert (status, output) == (2, "")
    error = yaml.safe_load(complaints)["error"]
    assert error == json.loads(complaints)["error"]
    assert (error["exitStatus"], "/nowhere" in error["message"]) == (2, True)
    status, _, complaints = infd("plan", *form, "--otter")
    assert "`infd plan --help`" in json.loads(complaints)["error"]["message"]


def test_the_version_option_prints_the_version(infd: Infd) -> None:
    assert infd("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("arguments", [["render"], ["unknown"]])
def test_invalid_arguments_are_refused_with_a_hint_to_help(infd: Infd, arguments: list[str]) -> None:
    status, _, complaints = infd(*arguments)
    assert status == 2
    assert complaints.startswith("infd")
    assert complaints.splitlines()[1].endswith("--help`.")


def test_a_created_key_is_printed_once_and_only_its_hash_is_in_the_secret(infd: Infd) -> None:
    status, output, shown = infd("key", "create", "alice", "--secret", "keys", "-n", "demo")
    key = shown.splitlines()[-1]
    secret = yaml.safe_load(output)
    assert (status, secret["kind"], secret["metadata"]) == (0, "Secret", {"name": "keys", "namespace": "demo"})
    assert secret["stringData"] == {"keys": f"alice: {hashlib.sha256(key.encode()).hexdigest()}\n"}
    assert key not in output
    status, line, _ = infd("key", "create", "alice")
    assert (status, line.startswith("alice: ")) == (0, True)
    status, output, shown = infd("key", "create", "alice", "--secret=keys", "-o", "json")
    made = json.loads(output)
    assert (status, shown, made["line"]) == (0, "", f"alice: {hashlib.sha256(made['key'].encode()).hexdigest()}")
    assert made["secret"]["stringData"] == {"keys": f"{made['line']}\n"}
    marks = json.loads(infd("key", "marks", "-o", "json", stdin=made["line"])[1])["items"]
    assert [(one["user"], len(one["mark"])) for one in marks] == [("alice", 16)]


@pytest.mark.parametrize("wrong", [("al ice",), ("",), ("a" * 64,), ("alice", "--namespace", "demo")])
def test_a_key_that_cannot_be_created_is_refused_with_the_cure(infd: Infd, wrong: tuple[str, ...]) -> None:
    status, output, complaints = infd("key", "create", *wrong)
    assert (status, output) == (2, "")
    assert "use 1 to 63 letters" in complaints or "--namespace needs --secret" in complaints


def test_a_prefetch_with_pickle_files_needs_a_commit_before_it_looks_for_a_cluster(
    infd: Infd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    prefetch = ("cache", "prefetch", "hf://org/model", "--claim=models", "--allow-pickle")
    status, _, complaints = infd(*prefetch, "--revision=main")
    assert status == 2
    assert "`allowPickle` needs weights that cannot change" in complaints
    assert "There is no cluster to work in" in infd(*prefetch, f"--revision={'0' * 40}")[2]
