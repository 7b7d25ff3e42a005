"""Annotations that hold a value as JSON: written in one compact form, and read back only if they are valid."""

import json
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False)


def compact_json(value: object) -> str:
    """JSON without spaces and with sorted keys, so that equal values have equal texts.

    Examples:
        >>> compact_json({"b": 1, "a": [2]})
        '{"a":[2],"b":1}'
    """
    return _ENCODER.encode(value)


def parsed_json(text: object, adapter: TypeAdapter[T]) -> T | None:
    """The value of an annotation; None if it is absent, or was edited into something else.

    Examples:
        >>> numbers = TypeAdapter(list[int])
        >>> parsed_json("[1,2]", numbers), parsed_json("[1,", numbers), parsed_json(None, numbers)
        ([1, 2], None, None)
    """
    if not isinstance(text, str):
        return None
    try:
        return adapter.validate_json(text)
    except (ValidationError, RecursionError):
        return None
