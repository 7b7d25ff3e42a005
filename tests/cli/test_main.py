import io
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from inference_operator import __version__
from inference_operator.api.crd import crd
from inference_operator.api.policy import policy
from inference_operator.cli.main import main

SAMPLES = sorted((Path(__file__).parents[2] / "manifests" / "samples").glob("*.yaml"))
GOOD = SAMPLES[0].read_text()
HEADER = "apiVersion: inference-operator.dev/v1alpha1\nkind: InferenceDeployment\n"
Infd = Callable[..., tuple[int, str, str]]


@pytest.fixture
def infd(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Infd:
    """Run `infd`, with a text on its standard input; returns status, output and complaints."""

    def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as end:
            main(arguments)
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return run


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_rendered(infd: Infd, sample: Path) -> None:
    status, output, complaints = infd("render", "-f", str(sample))
    assert (status, complaints) == (0, "")
    kinds = [document["kind"] for document in yaml.safe_load_all(output)]
    assert kinds[:5] == ["ConfigMap", "Service", "Service", "Deployment", "Deployment"]
    assert set(kinds[5:]) <= {"PodDisruptionBudget"}


def test_standard_input_is_read(infd: Infd) -> None:
    assert infd("render", "-f", "-", stdin=GOOD) == infd("render", "-f", str(SAMPLES[0]))


def test_other_objects_of_a_file_are_left_out(infd: Infd) -> None:
    mixed = f"kind: Namespace\napiVersion: v1\n---\n{GOOD}\n---\n# nothing\n---\n- a list\n"
    assert infd("render", "-f", "-", stdin=mixed) == infd("render", "-f", "-", stdin=GOOD)


def test_what_is_good_is_rendered_although_another_is_not(infd: Infd) -> None:
    bad = f"{HEADER}metadata: {{name: bad}}\nspec: {{model: {{source: 's3://b'}}}}\n"
    status, output, complaints = infd("render", "-f", "-", stdin=f"{bad}---\n{GOOD}")
    assert status == 1
    assert output == infd("render", "-f", "-", stdin=GOOD)[1]
    assert complaints.startswith("bad: spec.model.source: `s3://b` has no scheme")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "-: holds no InferenceDeployment of inference-operator.dev/v1alpha1."),
        ("kind: Pod\n", "-: holds no InferenceDeployment"),
        ("a: [", "-: is no YAML: "),
        (HEADER, "?: metadata.name: must be a DNS-1035 label"),
        (f"{HEADER}metadata: 5\n", "?: metadata.name: must be a DNS-1035 label"),
        (f"{HEADER}metadata: {{name: qwen}}\n", "qwen: spec.model: is required."),
        (f"{HEADER}metadata: {{name: qwen}}\nspec: text\n", "qwen: spec: "),
        (f"{HEADER}metadata: {{name: qwen}}\nspec: {{1: 2}}\n", "qwen: spec."),
        (f"{HEADER}metadata: {{name: vllm}}\nspec: {{model: {{source: 'hf://a/b'}}}}\n", "vllm: metadata.name: "),
    ],
)
def test_what_is_wrong_is_said_in_one_line(infd: Infd, text: str, complaint: str) -> None:
    status, output, complaints = infd("render", "-f", "-", stdin=text)
    assert (status, output) == (1, "")
    assert complaints.startswith(complaint)
    assert complaints.count("\n") == 1


def test_a_file_that_cannot_be_read_is_named(infd: Infd, tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing.yaml", tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert infd("render", "-f", str(missing)) == (1, "", f"{missing}: No such file or directory.\n")
    assert infd("render", "-f", str(tmp_path)) == (1, "", f"{tmp_path}: Is a directory.\n")
    assert infd("render", "-f", str(binary)) == (1, "", f"{binary}: is no UTF-8 text.\n")


def test_a_setting_that_is_wrong_is_named(infd: Infd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERENCE_OPERATOR_DNS_STALENESS_SECONDS", "soon")
    status, output, complaints = infd("render", "-f", str(SAMPLES[0]))
    assert (status, output) == (2, "")
    assert complaints.startswith("INFERENCE_OPERATOR_DNS_STALENESS_SECONDS: ")
    assert complaints.count("\n") == 1


def test_the_crd_is_printed(infd: Infd) -> None:
    status, output, _ = infd("crd")
    assert status == 0
    assert yaml.safe_load(output) == crd()


def test_the_policy_is_printed(infd: Infd) -> None:
    status, output, _ = infd("policy")
    assert status == 0
    assert list(yaml.safe_load_all(output)) == policy()


def test_the_version_is_printed(infd: Infd) -> None:
    assert infd("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["render"], ["unknown"]])
def test_what_cannot_be_meant_shows_the_usage(infd: Infd, arguments: list[str]) -> None:
    status, _, complaints = infd(*arguments)
    assert status == 2
    assert complaints.startswith("usage: infd")
