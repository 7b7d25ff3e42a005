"""Values that the operator keeps in annotations of live objects, as JSON, so that it knows them after a restart.

An equal value has an equal text, so that a restart writes nothing. People can edit annotations. So whatever is not a
valid value is read as none, and is no error.
"""

import json
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeAlias, TypeVar

from pydantic import AwareDatetime, Field, PlainSerializer, TypeAdapter

from inference_operator.manifest import Manifest
from inference_operator.views.raw import annotations

EDITED = "the annotation was edited"
NO_VALUE = (ValueError, TypeError, RecursionError)
"""The errors of texts that are no value; a TypeError is of one that is no Unicode."""
T = TypeVar("T")
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False)

MAX_BYTES = 256 * 1024
"""All annotations of an object have at most so many bytes (apimachinery 0.36, pkg/api/validation,
`TotalAnnotationSizeLimitB`)."""

_Moment: TypeAlias = Annotated[
    AwareDatetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), le=datetime(9000, 1, 1, tzinfo=UTC))
]
"""A time to which a wait can be added: years end with 9999."""
Time: TypeAlias = Annotated[_Moment, PlainSerializer(lambda time: time.isoformat())]
"""A time with microseconds, in its own time zone."""
UtcTime: TypeAlias = Annotated[_Moment, PlainSerializer(lambda time: time.astimezone(UTC).isoformat())]
"""A time with microseconds, as `2026-01-02T03:04:05.678901+00:00`."""
UtcSecond: TypeAlias = Annotated[
    _Moment, PlainSerializer(lambda moment: f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}")
]
"""A time without its fraction of a second, as Kubernetes writes times: `2026-01-02T03:04:05Z`."""


def compact_json(value: object) -> str:
    """JSON without spaces and with sorted keys, so that equal values have equal texts."""
    return _ENCODER.encode(value)


class Annotation(ABC, Generic[T]):
    def __init__(self, key: str, max_bytes: int = MAX_BYTES) -> None:
        self.key = key
        self._max_bytes = max_bytes
        """Length of the longest text that is written and read."""

    @abstractmethod
    def write(self, value: T) -> str:
        """The text of a value."""

    @abstractmethod
    def parsed(self, text: str) -> T:
        """The value of a text.

        Raises:
            ValueError: if the text is no value.
        """

    def read(self, live: Manifest | None) -> T | None:
        """The value that a live object has; None without an object, and for any text that is no value."""
        text = self.text(live)
        try:
            return self.parsed(text) if text else None
        except NO_VALUE:
            return None

    def entry(self, value: T | None) -> dict[str, str]:
        """The annotation of an object with this value; nothing for None, and for a value that is too long."""
        text = "" if value is None else self.write(value)
        return {self.key: text} if 0 < len(text) <= self._max_bytes else {}

    def text(self, live: Manifest | None) -> str:
        """The annotation as it is; empty if there is none, or if it is too long."""
        text = annotations(live).get(self.key)
        return text if isinstance(text, str) and len(text) <= self._max_bytes else ""


class JsonAnnotation(Annotation[T]):
    def __init__(self, key: str, form: TypeAdapter[T]) -> None:
        super().__init__(key)
        self._form = form

    def write(self, value: T) -> str:
        return compact_json(self._form.dump_python(value, mode="json"))

    def parsed(self, text: str) -> T:
        return self._form.validate_json(text)
