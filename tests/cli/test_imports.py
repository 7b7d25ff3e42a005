"""A command imports only what it needs, because imports are most of its time."""

import json
import os
import subprocess
import sys
from pathlib import Path

from inference_operator.cli.main import COMMANDS, named
from inference_operator.manifest import Ref
from tests.cli.test_arguments import LEAVES
from tests.testing.builders import inference_deployment
from tests.testing.stored_answers import listing, stored_answers

HEAVY = {"aiohttp", "huggingface_hub", "jinja2", "kopf", "kubernetes", "prometheus_client", "pydantic", "rich", "yaml"}
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


def test_help_imports_no_options_and_the_help_of_a_command_no_work() -> None:
    light = {"", ".main", ".parser"}
    own = {name for name in imported("--help") if name.startswith("inference_operator")}
    assert own == {"inference_operator", *(f"inference_operator.cli{part}" for part in light)}
    modules = imported("help", *COMMANDS)
    work = {command.get_default("run").partition(":")[0] for command in LEAVES.values()}
    assert not modules & {*HEAVY, "asyncio", *(f"inference_operator.cli.{module}" for module in work)}


def test_each_command_names_its_work() -> None:
    assert {words[0] for words in LEAVES} == set(COMMANDS)
    assert all(callable(named(command.get_default("run"))) for command in LEAVES.values())


def test_a_list_imports_the_client_and_no_model_of_the_api(tmp_path: Path) -> None:
    with stored_answers(tmp_path / "config") as answers:
        live = inference_deployment()
        answers[Ref.of(live).path.rpartition("/")[0]] = listing(live)
        modules = imported("list", f"--kubeconfig={tmp_path / 'config'}")
    packages = {name.removeprefix("inference_operator.").partition(".")[0] for name in modules if "operator." in name}
    assert packages == {"api", "cli", "controller", "kube", "manifest", "objects", "views"}
    assert {name for name in modules if ".api." in name and name.startswith("inference_operator")} == {
        f"inference_operator.api.{name}" for name in ("json_names", "reasons")
    }
    assert not modules & {
        *HEAVY - {"aiohttp", "pydantic", "yaml"},
        "kubernetes.dynamic",
        "kubernetes.config",
        "urllib3",
    }


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
