"""Generates the CustomResourceDefinition of a kind from the pydantic models of its `spec` and `status`.

Kubernetes requires structural schemas: no references, every node typed, nothing but validation inside `anyOf`
(Kubernetes documentation, CustomResourceDefinitions, "Specifying a structural schema").
The schema for editors is made of the same models.
"""

import copy
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from inference_operator.api.resource import INFERENCE_DEPLOYMENT_API, RESERVED_NAME, ResourceApi
from inference_operator.api.spec import MAX_NAME_LENGTH, Spec
from inference_operator.api.status import NEVER_OBSERVED
from inference_operator.manifest import API_VERSION, GROUP, KIND, VERSION, Manifest

_DROPPED = ("title", "additionalProperties", "default")

_NAME_RULES = (
    (
        f"self.metadata.name.size() <= {MAX_NAME_LENGTH}",
        f"metadata.name must have at most {MAX_NAME_LENGTH} characters, for example `qwen3-8b`",
    ),
    (
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        (
            "metadata.name must be a DNS-1035 label (lower-case letters, digits and `-`, starting with a letter),"
            " for example `qwen3-8b`"
        ),
    ),
    (
        f"self.metadata.name != '{RESERVED_NAME}'",
        (
            f"metadata.name must not be `{RESERVED_NAME}`: the variables of a Service of that name stop vLLM;"
            " use for example `qwen3-8b`"
        ),
    ),
)
"""The name rules of `resource.py`, in CEL."""


def _structural(node: Any, definitions: dict[str, JsonSchemaValue]) -> Any:  # noqa: ANN401 - JSON
    """The schema without references, nulls, titles and defaults, which only Python needs."""
    if isinstance(node, list):
        return [_structural(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if reference := node.get("$ref"):
        target = definitions[reference.rsplit("/", 1)[-1]]
        siblings = {k: v for k, v in node.items() if k != "$ref"}
        first = {k: v for k, v in siblings.items() if k == "description"}
        return _structural({**first, **target, **siblings}, definitions)
    options = [o for o in node.get("anyOf", ()) if o != {"type": "null"}]
    if len(options) == 1 and "x-kubernetes-int-or-string" not in node:
        siblings = {k: v for k, v in node.items() if k != "anyOf"}
        return _structural({**options[0], **siblings}, definitions)
    return _node(node, definitions)


def _node(node: dict[str, Any], definitions: dict[str, JsonSchemaValue]) -> Any:  # noqa: ANN401 - JSON
    result: dict[str, Any] = {}
    for name, value in node.items():
        if name == "properties":
            result[name] = {k: _structural(v, definitions) for k, v in value.items()}
        elif name == "const":  # a structural schema has none
            result["enum"] = [value]
        elif (name == "additionalProperties" and isinstance(value, dict)) or name not in _DROPPED:
            result[name] = _structural(value, definitions)
    result.pop("propertyNames", None)
    if isinstance(result.get("items"), dict):
        result["items"].pop("description", None)  # the description of the list is enough
    return result


def structural_schema(model: type[BaseModel]) -> Manifest:
    return copy.deepcopy(_generated(model))


@cache
def _generated(model: type[BaseModel]) -> Manifest:
    """To generate a schema takes far longer than to copy it, and `infd doctor` compares several."""
    schema = model.model_json_schema(by_alias=True, schema_generator=GenerateJsonSchema, mode="validation")
    result: Manifest = _structural(schema, schema.get("$defs", {}))
    result.pop("$defs", None)
    return result


def _schema(api: ResourceApi[Any, Any]) -> Manifest:
    spec, status = structural_schema(api.spec), structural_schema(api.status)
    if api.scales:
        spec["properties"]["replicas"]["default"] = 1  # `/scale` requires a stored value
    status["default"] = {"observedGeneration": NEVER_OBSERVED}  # kstatus then waits for the operator
    return {
        "type": "object",
        "description": api.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in _NAME_RULES],
    }


def crd(api: ResourceApi[Any, Any] = INFERENCE_DEPLOYMENT_API) -> Manifest:
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **({"scale": scale} if api.scales else {})},
        "additionalPrinterColumns": copy.deepcopy(list(api.columns)),
        "schema": {"openAPIV3Schema": _schema(api)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": api.kind.resource},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": api.kind.name,
                "listKind": f"{api.kind.name}List",
                "plural": api.kind.plural,
                "singular": api.kind.name.lower(),
                "shortNames": list(api.short_names),
                "categories": ["inference"],
            },
            "versions": [version],
        },
    }


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
