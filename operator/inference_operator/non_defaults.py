"""The fields of a dataclass as JSON has them: all of them, or those that differ from their defaults.

A hash of the latter does not change when a field with a default is added.
"""

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def field_values(record: "DataclassInstance") -> dict[str, Any]:
    """All fields of a dataclass, and of the dataclasses in them. Other values are not copied, as `asdict` does."""
    values = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return {name: field_values(value) if is_dataclass(value) else value for name, value in values.items()}  # type: ignore[arg-type]


def non_defaults(record: "DataclassInstance | None") -> dict[str, Any]:
    """The fields of a dataclass whose values differ from their defaults; those without a default count."""
    declared = fields(record) if record else ()
    return {field.name: value for field in declared if (value := getattr(record, field.name)) != _default(field)}


def _default(field: "Field[Any]") -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()
