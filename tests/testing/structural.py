"""Checks objects against the schema of their CustomResourceDefinition, as the API server does with strict fields."""

import re
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "number": (int, float),
}


def schema_errors(value: object, schema: Schema, path: str = "") -> list[str]:
    """Unknown and missing fields, wrong types, and values that an enumeration or a pattern refuses.

    Examples:
        >>> schema_errors({"a": 1, "b": 2}, {"type": "object", "properties": {"a": {"type": "string"}}})
        ['a: not of type string', 'b: unknown field']
    """
    return list(_errors(value, schema, path))


def _errors(value: object, schema: Schema, path: str) -> Iterator[str]:
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str):
            yield f"{path}: neither an integer nor a string"
        return
    wanted = schema.get("type")
    if wanted and not isinstance(value, TYPES[wanted]):
        yield f"{path}: not of type {wanted}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: not one of {schema['enum']}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{path}: does not match {schema['pattern']}"
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _errors(item, schema.get("items", {}), f"{path}[{number}]")
    if isinstance(value, dict):
        yield from _fields(value, schema, path)


def _fields(value: dict[str, object], schema: Schema, path: str) -> Iterator[str]:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    yield from (f"{path}: lacks {name}" for name in schema.get("required", ()) if name not in value)
    for name, inner in value.items():
        at = f"{path}.{name}".lstrip(".")
        if properties is not None and name in properties:
            yield from _errors(inner, properties[name], at)
        elif isinstance(others, dict):
            yield from _errors(inner, others, at)
        elif properties is not None and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{at}: unknown field"
