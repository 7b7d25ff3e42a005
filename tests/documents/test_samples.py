from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from inference_operator.api.resource import resource
from inference_operator.pipeline import Inputs, Planned, outcome
from inference_operator.settings import Settings

SAMPLES = sorted((Path(__file__).parents[2] / "manifests" / "samples").glob("*.yaml"))
NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_becomes_a_plan(sample: Path) -> None:
    asked = resource(yaml.safe_load(sample.read_text()))
    result = outcome(Inputs(resource=asked, children={}, pods=(), settings=Settings(), now=NOW))
    assert isinstance(result, Planned), result
