"""Only `model_files` imports the hub client, because that library is large."""

import subprocess
import sys

from tests.cli.test_arguments import LEAVES

WITH_THE_HUB = """
import importlib, json, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
    if found := {"huggingface_hub", "httpx2"} & set(sys.modules):
        sys.exit(json.dumps([module, *sorted(found)]))
"""
OF_THE_HUB = {"job.prune"}
"""The command that does nothing without it."""


def test_neither_the_operator_nor_a_command_imports_the_hub_client() -> None:
    work = {command.get_default("run").partition(":")[0] for command in LEAVES.values()} - OF_THE_HUB
    modules = ["inference_operator.app", *(f"inference_operator.cli.{module}" for module in sorted(work))]
    command = [sys.executable, "-c", WITH_THE_HUB, *modules]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, ""), "the first module that does, with what it imports"
