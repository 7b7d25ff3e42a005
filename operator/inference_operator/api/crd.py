"""Generates the CustomResourceDefinition from the pydantic models of `spec` and `status`.

Kubernetes requires structural schemas: no references, every node typed, nothing but validation inside `anyOf`
(Kubernetes documentation, CustomResourceDefinitions, "Specifying a structural schema").
"""

import copy
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from inference_operator.api.resource import RESERVED_NAME
from inference_operator.api.spec import MAX_NAME_LENGTH, Spec
from inference_operator.api.status import NEVER_OBSERVED, Status
from inference_operator.manifest import GROUP, KIND, PLURAL, VERSION, Manifest

_DROPPED = ("title", "additionalProperties", "default")
_WIDE = 1
"""Priority of a column that only `kubectl get --output wide` shows."""
_COLUMNS = (
    ("Model", "string", ".status.model", "Name of the model"),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether a request would be answered"),
    ("Reason", "string", ".status.reason", "What is wrong, else the reason of the condition Ready"),
    ("Engines", "string", ".status.ready", "Ready and desired engines"),
    ("GPUs", "string", ".status.gpus", "GPUs of one engine"),
    ("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
)
_WIDE_COLUMNS = (
    ("URL", "string", ".status.url", "URL of the OpenAI API inside the cluster"),
    ("Engine", "string", ".status.engine.kind", "Kind of the engine"),
    ("Context", "integer", ".status.plan.maxModelLen", "Maximum context length in tokens"),
    ("Adapters", "string", ".status.adaptersReady", "Ready adapters, and all adapters"),
    ("Message", "string", ".status.message", "The cause, and what helps"),
)

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
        return _structural({**target, **siblings}, definitions)
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


def _schema() -> Manifest:
    spec, status = structural_schema(Spec), structural_schema(Status)
    spec["properties"]["replicas"]["default"] = 1  # `/scale` requires a stored value
    status["default"] = {"observedGeneration": NEVER_OBSERVED}  # kstatus then waits for the operator
    return {
        "type": "object",
        "description": "An inference service: engine pods behind a load balancer.",
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


def crd() -> Manifest:
    """The CustomResourceDefinition of InferenceDeployment.

    Examples:
        >>> crd()["metadata"]["name"]
        'inferencedeployments.inference-operator.dev'
    """
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path, "description": text, **priority}
            for columns, priority in ((_COLUMNS, {}), (_WIDE_COLUMNS, {"priority": _WIDE}))
            for name, kind, path, text in columns
        ],
        "schema": {"openAPIV3Schema": _schema()},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["infd"],
                "categories": ["inference"],
            },
            "versions": [version],
        },
    }
