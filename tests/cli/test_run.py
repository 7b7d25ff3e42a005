"""`infd run --dry-run`: the smallest manifest, the same as one would write, and errors with the field and the cure."""

import json

import pytest
import yaml

from inference_operator.cli.main import main

EVERYTHING = ("--gpu=L4, A10G", "--autoscale=0..4", "--token-secret=hub", "--namespace=models")


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["run", *arguments, "--dry-run"])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def test_without_options_the_manifest_has_seven_lines(capsys: pytest.CaptureFixture[str]) -> None:
    status, said, _ = dry_run(capsys, "qwen", "Qwen/Qwen3-8B")
    assert status == 0
    lines = [line for line in said.splitlines() if "namespace:" not in line]
    assert lines == [
        "apiVersion: inference-operator.dev/v1alpha1",
        "kind: InferenceDeployment",
        "metadata:",
        "  name: qwen",
        "spec:",
        "  model:",
        "    source: hf://Qwen/Qwen3-8B",
    ]


def test_each_option_is_a_field_of_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    _, said, _ = dry_run(capsys, "qwen", "hf://Qwen/Qwen3-8B", *EVERYTHING)
    made = yaml.safe_load(said)
    assert made["metadata"] == {"name": "qwen", "namespace": "models"}
    assert made["spec"] == {
        "model": {"source": "hf://Qwen/Qwen3-8B", "tokenSecretRef": {"name": "hub"}},
        "hardware": {"gpu": {"products": ["L4", "A10G"]}},
        "autoscaling": {"minReplicas": 0, "maxReplicas": 4},
    }
    assert json.loads(dry_run(capsys, "qwen", "hf://Qwen/Qwen3-8B", *EVERYTHING, "-o", "json")[1]) == made


def test_engines_on_cpus_with_a_fixed_number(capsys: pytest.CaptureFixture[str]) -> None:
    made = yaml.safe_load(dry_run(capsys, "qwen", "pvc://models/a", "--cpu", "--replicas=2")[1])
    assert made["spec"] == {"model": {"source": "pvc://models/a"}, "hardware": {"device": "CPU"}, "replicas": 2}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Qwen", "a/b"), "metadata.name: must be a DNS-1035 label"),
        (("qwen", "nothing"), "spec.model.source: "),
        (("qwen", "ftp://a/b"), "spec.model.source: "),
        (("qwen", "a/b", "--autoscale=4"), "--autoscale: write the least and the most engines as MIN..MAX"),
        (("qwen", "a/b", "--autoscale=4..1"), "spec.autoscaling: `minReplicas` must not be above `maxReplicas`"),
        (("qwen", "a/b", "--replicas=-1"), "spec.replicas: "),
        (("qwen", "a/b", "--cpu", "--gpu=L4"), "not allowed with argument"),
    ],
)
def test_a_wrong_choice_is_refused_with_its_field(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    status, printed, complaint = dry_run(capsys, *arguments)
    assert (status, printed) == (2, "")
    assert said in complaint
    assert "Traceback" not in complaint
