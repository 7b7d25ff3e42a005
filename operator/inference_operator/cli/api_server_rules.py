"""Rules of the API server for resources from files that pydantic lacks: it drops nulls and rejects quoted numbers."""

from functools import cache

from pydantic import TypeAdapter, ValidationError

from inference_operator.api.crd import structural_schema
from inference_operator.api.field_errors import BOOLEAN, INTEGER, NUMBER, Path, field_name
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest

_NUMBERS = TypeAdapter[bool | float](bool | float)
"""The types that pydantic reads from text too; every integer is also a number."""
_MESSAGES = {"integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN}


def stored(spec: object) -> object:
    """The spec without nulls, which the API server drops. Templates leave them where no value is filled in.

    Examples:
        >>> stored({"replicas": None, "engine": {"args": ["--seed=1"], "image": None}})
        {'engine': {'args': ['--seed=1']}}
    """
    if isinstance(spec, dict):
        return {name: stored(value) for name, value in spec.items() if value is not None}
    return [stored(item) for item in spec] if isinstance(spec, list) else spec


def quoted_number(spec: object) -> Refusal | None:
    """The first number or boolean in quotes, which the API server rejects and pydantic would accept.

    Examples:
        >>> quoted_number({"replicas": "2"}).message
        'spec.replicas: must be an integer. Write it without quotes.'
    """
    return _quoted(spec, _schema(), []) if _has_readable(spec) else None


def _has_readable(value: object) -> bool:
    """Whether a text in the value can be read as a number or boolean. If none can, no schema needs to be made."""
    if isinstance(value, str):
        return _is_readable(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_has_readable(part) for part in parts)


def _is_readable(text: str) -> bool:
    try:
        _NUMBERS.validate_python(text)
    except ValidationError:
        return False
    return True


@cache
def _schema() -> Manifest:
    return structural_schema(Spec)


def _quoted(value: object, schema: Manifest, path: Path) -> Refusal | None:
    match value:
        case dict():
            fields, others = schema.get("properties", {}), schema.get("additionalProperties", {})
            children = [(name, item, fields.get(name, others)) for name, item in value.items()]
        case list():
            children = [(index, item, schema.get("items", {})) for index, item in enumerate(value)]
        case str() if message := _MESSAGES.get(schema.get("type", "")):
            return Refusal(Reason.INVALID_SPEC, field_name(path), *message)
        case _:
            return None
    refusals = (_quoted(item, part, [*path, step]) for step, item, part in children)
    return next((refusal for refusal in refusals if refusal), None)
