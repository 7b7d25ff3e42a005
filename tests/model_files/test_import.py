"""Only `model_files` imports the hub client, because that library is large."""

import subprocess
import sys

import pytest

from inference_operator.cli.commands import module_of
from inference_operator.cli.main import COMMANDS

ONLY_THE_HUB = "import sys, {module}; sys.exit(sorted({{'huggingface_hub', 'httpx2'}} & set(sys.modules)).__repr__())"


@pytest.mark.parametrize(
    "module", ["inference_operator.app", *(f"inference_operator.cli.{module_of(name)}" for name in COMMANDS)]
)
def test_the_operator_does_not_import_the_hub_client(module: str) -> None:
    command = [sys.executable, "-c", ONLY_THE_HUB.format(module=module)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.stderr.strip() == "[]"
