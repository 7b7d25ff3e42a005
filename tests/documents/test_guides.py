"""The guides for GPUs and gated models: their figures are those of `infd fit`, and their resources are accepted."""

import json
import re
from pathlib import Path

import pytest
import yaml

from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.cli.main import main

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
KINDS = {"L4": "L4", "L40S": "L40S", "H100": "H100-80GB", "H200": "H200"}
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (HOW_TO / "which-gpu.md").read_text().splitlines()
    if re.match(r"\| [\w.-]+/", line)
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_fewest_gpus_of_a_model_are_those_of_infd_fit(row: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    model, _, *shown = row
    gpus = [f"--gpu={kind}:8" for kind in KINDS]
    with pytest.raises(SystemExit):
        main(["fit", model, "--max-model-len=8192", "--profile=Smallest", "--output=json", *gpus])
    found = {one["gpu"]: one["gpusPerReplica"] for one in json.loads(capsys.readouterr().out)["items"]}
    assert [found[kind] for kind in KINDS.values()] == list(map(int, shown))


def test_the_resource_for_a_gated_model_is_accepted() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (HOW_TO / "gated-models.md").read_text(), re.DOTALL)
    shown = yaml.safe_load(block)
    assert not isinstance(
        resource({**shown, "metadata": {"namespace": "a", "uid": "", **shown["metadata"]}}).spec, Refusal
    )
