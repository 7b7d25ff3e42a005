"""What of a record is not as usual, for fingerprints that a field of a later release must not change."""

from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any

from inference_operator.manifest import Manifest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def unusual(record: "DataclassInstance | None") -> Manifest:
    """The fields of a dataclass whose values are not their defaults; nothing of None.

    Examples:
        >>> from inference_operator.sizing.shape import Adapters
        >>> unusual(Adapters(rank=16, active=4)), unusual(None)
        ({'rank': 16, 'active': 4}, {})
    """
    named = fields(record) if record else ()
    return {one.name: value for one in named if (value := getattr(record, one.name)) != _usual(one)}


def _usual(one: "Field[Any]") -> object:
    return one.default if one.default_factory is MISSING else one.default_factory()
