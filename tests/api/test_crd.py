import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inference_operator.api.crd import crd
from inference_operator.api.model_gateway import MODEL_GATEWAY_API
from inference_operator.api.spec import MAX_NAME_LENGTH
from inference_operator.cli.output import schema_text
from inference_operator.controller.resource_kind import KINDS
from tests.testing.for_each import for_each
from tests.testing.schemas import validate

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "crds" / "inferencedeployments.yaml"
IN_THE_CHART = ROOT / "charts" / "inference-operator" / "files" / "crd.yaml"
MAX_GATEWAY_BYTES = 80_000
MAX_BYTES = 220_000
"""`kubectl apply` stores the object as compact JSON in an annotation, and the annotations of an object hold at most
262,144 bytes (apimachinery 0.36, pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB). The rest is for other
annotations."""

(VERSION,) = crd()["spec"]["versions"]
SCHEMA: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]


def test_the_committed_definitions_equal_the_generated_ones() -> None:
    assert COMMITTED.read_text() == "".join(schema_text(crd(kind.api)) for kind in KINDS), "stale: run `make crd`"


def test_the_crd_in_the_chart_files_equals_the_committed_crd() -> None:
    assert IN_THE_CHART.read_bytes() == COMMITTED.read_bytes(), "stale: run `make crd`"


def test_the_crd_fits_into_the_annotation_of_client_side_apply() -> None:
    assert len(json.dumps(crd(), separators=(",", ":"))) < MAX_BYTES


def test_the_definition_of_gateways_has_at_most_80_kilobytes() -> None:
    assert len(schema_text(crd(MODEL_GATEWAY_API))) <= MAX_GATEWAY_BYTES


def test_the_definitions_are_valid_for_kubernetes() -> None:
    for kind in KINDS:
        validate(crd(kind.api))


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path or ".", schema
    for name, part in schema.get("properties", {}).items():
        yield from nodes(part, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


NODES = dict(nodes(SCHEMA))
SPEC = {path: node for path, node in NODES.items() if path.startswith(".spec")}


@for_each(NODES)
def test_the_crd_schema_is_structural(path: str) -> None:
    node = NODES[path]
    if node.get("x-kubernetes-int-or-string"):
        assert "type" not in node
        assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    else:
        assert isinstance(node["type"], str)
        assert "anyOf" not in node
    assert not {"$ref", "$defs", "title", "allOf", "oneOf", "not", "const", "propertyNames"} & node.keys()
    assert ("properties" in node) + ("additionalProperties" in node) < 2
    assert None not in node.values()


@for_each(SPEC)
def test_every_field_that_users_write_has_a_bound_in_the_crd(path: str) -> None:
    node = SPEC[path]
    match node.get("type"):
        case "string":
            assert "maxLength" in node or "enum" in node
        case "array":
            assert "maxItems" in node
        case "integer":
            assert {"minimum", "maximum"} <= node.keys()
        case "object":
            assert "properties" in node or "maxProperties" in node


@for_each(path for path in NODES if not re.search(r"[\]}]$", path))
def test_every_field_of_the_crd_has_a_description(path: str) -> None:
    if path not in (".apiVersion", ".kind", ".metadata", ".status.conditions"):
        assert NODES[path]["description"].endswith(".")


def _spec(definition: dict[str, Any]) -> dict[str, Any]:
    (version,) = definition["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def leaves(schema: dict[str, Any], path: str, above: str = "") -> Iterator[tuple[str, str, str]]:
    """The fields that have no fields: their path, their own description, and that with those of the fields above."""
    for name, part in schema.get("properties", {}).items():
        own = f"{part['description']}{' Required.' * (name in schema.get('required', ()))}"
        inside = list(leaves(part.get("items", part), f"{path}.{name}", own + above))
        yield from inside or [(f"{path}.{name}", own, own + above)]


@for_each([leaf for kind in KINDS for leaf in leaves(_spec(crd(kind.api)), f"{kind.api.kind.name}.spec")])
def test_kubectl_explain_tells_the_default_of_each_field_and_what_its_change_does(leaf: tuple[str, str, str]) -> None:
    _, own, with_those_above = leaf
    assert "Default: " in own or "Required." in own
    assert "Change: " in with_those_above


def test_every_crd_validation_rule_has_a_message_with_its_field_or_an_example() -> None:
    rules = [rule for node in NODES.values() for rule in node.get("x-kubernetes-validations", ())]
    assert len(rules) >= 8
    for rule in rules:
        assert rule["message"].strip()
        assert len(rule["message"]) <= 2048
        assert "\n" not in rule["rule"] + rule["message"]


def test_every_crd_list_that_is_merged_by_key_requires_the_key() -> None:
    for node in NODES.values():
        for key in node.get("x-kubernetes-list-map-keys", ()):
            assert key in node["items"]["required"]


def test_the_model_is_the_only_required_field_of_the_spec() -> None:
    assert NODES[".spec"]["required"] == ["model"]
    assert NODES[".spec.model"]["required"] == ["source"]


def test_the_crd_has_defaults_only_where_kubernetes_needs_them() -> None:
    stored = {path: node["default"] for path, node in NODES.items() if "default" in node}
    assert stored == {".spec.replicas": 1, ".status": {"observedGeneration": -1}}


def test_paths_of_the_scale_subresource_are_fields_of_the_schema() -> None:
    for path in VERSION["subresources"]["scale"].values():
        assert path in NODES


def test_paths_of_the_printer_columns_are_fields_of_the_schema() -> None:
    for column in VERSION["additionalPrinterColumns"]:
        path = re.sub(r"\[\?.*?\]", "[]", column["jsonPath"])
        assert path in NODES or path == ".metadata.creationTimestamp"


def test_the_crd_rule_for_names_has_the_maximum_name_length() -> None:
    rules = " ".join(rule["rule"] for rule in SCHEMA["x-kubernetes-validations"])
    assert f"<= {MAX_NAME_LENGTH}" in rules
    assert "'vllm'" in rules


def test_changing_a_generated_crd_does_not_change_the_following_crd() -> None:
    first = crd()
    first["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clear()
    assert crd() != first
    assert schema_text(crd()) == schema_text(crd())
