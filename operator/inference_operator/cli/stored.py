"""A resource as the API server would store it, where that differs from what a file says."""

from functools import cache

from inference_operator.api.crd import structural_schema
from inference_operator.api.mistakes import NUMBER, SWITCH, WHOLE, Path, field_name
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest

_WORDS = {"integer": WHOLE, "number": NUMBER, "boolean": SWITCH}


def stored(spec: object) -> object:
    """The spec without its nulls, which the API server drops; a template leaves them where nothing is filled in.

    Examples:
        >>> stored({"replicas": None, "engine": {"args": ["--seed=1"], "image": None}})
        {'engine': {'args': ['--seed=1']}}
    """
    if isinstance(spec, dict):
        return {name: stored(value) for name, value in spec.items() if value is not None}
    return [stored(item) for item in spec] if isinstance(spec, list) else spec


def quoted_number(spec: object) -> Refusal | None:
    """The first number or switch that is written as text, which the API server refuses and pydantic would read.

    Examples:
        >>> quoted_number({"replicas": "2"}).message
        'spec.replicas: must be a whole number. Write one without quotes.'
    """
    return _quoted(spec, _schema(), [])


@cache
def _schema() -> Manifest:
    return structural_schema(Spec)


def _quoted(value: object, schema: Manifest, path: Path) -> Refusal | None:
    match value:
        case dict():
            fields, others = schema.get("properties", {}), schema.get("additionalProperties", {})
            below = [(name, one, fields.get(name, others)) for name, one in value.items()]
        case list():
            below = [(number, one, schema.get("items", {})) for number, one in enumerate(value)]
        case str() if words := _WORDS.get(schema.get("type", "")):
            return Refusal(Reason.INVALID_SPEC, field_name(path), *words)
        case _:
            return None
    found = (_quoted(one, part, [*path, step]) for step, one, part in below)
    return next((one for one in found if one), None)
