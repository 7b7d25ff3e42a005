"""Only `model_files` imports the hub client, because that library is large."""

import subprocess
import sys

from inference_operator.cli.commands import module_of
from inference_operator.cli.main import COMMANDS

WITH_THE_HUB = """
import importlib, json, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
    if found := {"huggingface_hub", "httpx2"} & set(sys.modules):
        sys.exit(json.dumps([module, *sorted(found)]))
"""


def test_neither_the_operator_nor_a_command_imports_the_hub_client() -> None:
    modules = ["inference_operator.app", *(f"inference_operator.cli.{module_of(name)}" for name in COMMANDS)]
    command = [sys.executable, "-c", WITH_THE_HUB, *modules]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, ""), "the first module that does, with what it imports"
