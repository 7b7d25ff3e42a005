"""Rules of the API server for resources from files that pydantic lacks: it drops nulls and rejects quoted numbers."""

from collections.abc import Iterator
from functools import cache

from pydantic import TypeAdapter, ValidationError

from inference_operator.api.crd import structural_schema
from inference_operator.api.field_errors import BOOLEAN, INTEGER, NUMBER, Path, field_name
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal, all_of
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


def with_quoted_numbers(parsed: Spec | Refusal, spec: object) -> Spec | Refusal:
    """The parsed spec; refused also for numbers and booleans in quotes, which the API server rejects.

    Examples:
        >>> with_quoted_numbers(Spec.model_validate({"model": {"source": "hf://a/b"}}), {"replicas": "2"}).message
        'spec.replicas: must be an integer. Write it without quotes.'
    """
    quoted = list(_quoted(spec, _schema(), [])) if _has_readable(spec) else []
    if not quoted:
        return parsed
    named = {one.field for one in quoted}
    others = parsed.mistakes if isinstance(parsed, Refusal) else ()
    return all_of([*quoted, *(one for one in others if one.field not in named)])


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


def _quoted(value: object, schema: Manifest, path: Path) -> Iterator[Refusal]:
    match value:
        case dict():
            fields, others = schema.get("properties", {}), schema.get("additionalProperties", {})
            children = [(name, item, fields.get(name, others)) for name, item in value.items()]
        case list():
            children = [(index, item, schema.get("items", {})) for index, item in enumerate(value)]
        case str() if (message := _MESSAGES.get(schema.get("type", ""))) and _is_readable(value):
            yield Refusal(Reason.INVALID_SPEC, field_name(path), *message)
            return
        case _:
            return
    for step, item, part in children:
        yield from _quoted(item, part, [*path, step])
