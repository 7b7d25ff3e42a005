"""The JSON Schema for editors: it takes every sample, and marks what a typo or another tool's field is."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from inference_operator.api.crd import editor_schema
from inference_operator.manifest import Manifest
from tests.testing.builders import inference_deployment

ROOT = Path(__file__).parents[2]
SAMPLES = sorted((ROOT / "manifests" / "samples").glob("*.yaml"))
COMMITTED = ROOT / "crds" / "inferencedeployment.schema.json"
REFERENCE = "# yaml-language-server: $schema=../../crds/inferencedeployment.schema.json"


def errors(resource: Manifest) -> list[str]:
    return [error.message for error in jsonschema.Draft7Validator(editor_schema()).iter_errors(resource)]


def test_the_committed_schema_is_the_generated_one() -> None:
    assert json.loads(COMMITTED.read_text()) == editor_schema(), "stale: run `make crd`"
    jsonschema.Draft7Validator.check_schema(editor_schema())


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_valid_and_names_the_schema(path: Path) -> None:
    """The quickstart does not: pages show it as it is."""
    assert path.read_text().startswith(f"{REFERENCE}\n") or path.stem == "quickstart"
    for one in yaml.safe_load_all(path.read_text()):
        if one["kind"] == "InferenceDeployment":
            assert errors(one) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"repilcas": 2}, "'repilcas' was unexpected"),
        ({"router": {"maxQueued": 5}}, "'maxQueued' was unexpected"),
        ({"hardware": {"device": "cpu"}}, "'cpu' is not one of"),
        ({"engine": {"maxModelLen": "8k"}}, "'8k' is not of type 'integer'"),
    ],
)
def test_a_mistake_is_marked(spec: Manifest, said: str) -> None:
    assert any(said in message for message in errors(inference_deployment(**spec)))
