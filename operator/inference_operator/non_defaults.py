"""The fields of a dataclass that differ from their defaults, so that a new field with a default changes no hash."""

from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def non_defaults(record: "DataclassInstance | None") -> dict[str, Any]:
    """The fields of a dataclass whose values differ from their defaults; those without a default count.

    Examples:
        >>> from inference_operator.sizing.shape import Adapters
        >>> non_defaults(Adapters(rank=16, active=4)), non_defaults(None)
        ({'rank': 16, 'active': 4}, {})
    """
    declared = fields(record) if record else ()
    return {field.name: value for field in declared if (value := getattr(record, field.name)) != _default(field)}


def _default(field: "Field[Any]") -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()
