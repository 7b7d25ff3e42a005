"""The JSON Schema of an InferenceDeployment, with which editors complete fields and mark mistakes."""

from typing import Any

from inference_operator.api.crd import structural_schema
from inference_operator.api.spec import Spec
from inference_operator.manifest import API_VERSION, KIND, Manifest

DIALECT = "http://json-schema.org/draft-07/schema#"
"""The dialect that the YAML language server reads (redhat-developer/yaml-language-server 1.19, README)."""


def editor_schema() -> Manifest:
    """The schema. It knows no rules over several fields, which only the API server and `infd plan` check."""
    return {
        "$schema": DIALECT,
        "title": KIND,
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            "metadata": {"type": "object", "required": ["name"]},
            "spec": _closed(structural_schema(Spec)),
            "status": {"type": "object"},
        },
    }


def _closed(node: Any) -> Any:  # noqa: ANN401 - JSON
    """A schema in which unknown fields are mistakes, without the words of Kubernetes."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    result = {name: _closed(value) for name, value in node.items() if not name.startswith("x-kubernetes-")}
    if "properties" in node:
        result["properties"] = {name: _closed(value) for name, value in node["properties"].items()}
        result["additionalProperties"] = False
    return result
