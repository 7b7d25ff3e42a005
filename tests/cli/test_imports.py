"""A command imports only what it needs, because imports are most of its time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from inference_operator.cli.main import COMMANDS
from inference_operator.manifest import Ref
from tests.testing.builders import inference_deployment
from tests.testing.stored_answers import listing, stored_answers

HEAVY = {"aiohttp", "huggingface_hub", "jinja2", "kopf", "kubernetes", "prometheus_client", "pydantic", "yaml"}
"""Packages that take from 30 ms (YAML) to half a second."""
RUN = """
import json, sys
from inference_operator.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
RESOURCE = """
apiVersion: inference-operator.dev/v1alpha1
kind: InferenceDeployment
metadata: {name: qwen}
spec: {model: {source: hf://Qwen/Qwen3-8B}}
"""


def imported(*arguments: str, stdin: str = "", status: int = 0) -> set[str]:
    """The modules that a command has imported when it ends."""
    command = [sys.executable, "-c", RUN, *arguments]
    environment = {**os.environ, "INFERENCE_OPERATOR_MODEL_INSPECTION": "WhenUnknown"}
    ended = subprocess.run(command, input=stdin, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == status, ended.stderr
    return set(json.loads(ended.stderr.splitlines()[-1]))


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_needs_no_command(option: str) -> None:
    modules = imported(option)
    own = {name for name in modules if name.startswith("inference_operator")}
    light = ("", ".commands", ".job", ".main", ".parser")
    assert own == {"inference_operator", *(f"inference_operator.cli{part}" for part in light)}
    assert not modules & {*HEAVY, "asyncio", "dataclasses"}


def test_help_of_a_command_does_not_import_the_modules_of_the_others() -> None:
    modules = imported("key", "--help")
    assert [name for name in COMMANDS if f"inference_operator.cli.{name}" in modules] == ["key"]


@pytest.mark.parametrize("command", ["chat", "top", "bench"])
def test_help_of_a_command_for_services_imports_no_client_and_no_screen(command: str) -> None:
    modules = imported(command, "--help")
    assert not modules & {"aiohttp", "kubernetes", "plotille", "prompt_toolkit", "rich"}


def test_a_screen_imports_neither_the_decision_nor_the_builders_of_pods(tmp_path: Path) -> None:
    with stored_answers(tmp_path / "config") as answers:
        live = inference_deployment()
        answers[Ref.of(live).path] = json.dumps(live).encode()
        for kind in ("pods", "events"):
            answers[f"/api/v1/namespaces/default/{kind}"] = listing()
        modules = imported("status", "qwen", f"--kubeconfig={tmp_path / 'config'}", status=1)
    assert not modules & {"inference_operator.pipeline.role", "inference_operator.workload.pod_spec"}


def test_a_plan_of_a_model_of_the_catalogue_imports_no_client() -> None:
    modules = imported("plan", "--filename=-", "--gpu=L4:4", stdin=RESOURCE)
    assert not modules & {"aiohttp", "huggingface_hub", "kopf", "kubernetes", "prometheus_client"}
