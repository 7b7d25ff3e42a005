"""Durations in the notation of Kubernetes tools: `90s`, `30m`, `1h30m`."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

_TEXT, _SHORT_TEXT = r"^([0-9]{1,5}[hms])+$", r"^([0-9]{1,5}(h|ms|m|s))+$"
"""Only fields whose bounds have milliseconds allow them."""
_PART = re.compile(r"([0-9]+)(h|ms|m|s)")
_UNITS = {"h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds"}
_LONGEST_TEXT = 16


def duration(text: str) -> timedelta:
    """Read a duration.

    Raises:
        ValueError: the text is not a duration.
    """
    if len(text) > _LONGEST_TEXT or not re.fullmatch(_SHORT_TEXT, text):
        raise ValueError("must be a duration, for example `90s`, `30m` or `1h30m`")
    return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in _PART.findall(text)), timedelta())


def in_words(length: timedelta) -> str:
    """The duration in words, in the largest unit that gives a whole number."""
    seconds = int(length.total_seconds())
    name, size = next(
        (name, size) for name, size in (("hour", 3600), ("minute", 60), ("second", 1)) if not seconds % size
    )
    number = seconds // size
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


@dataclass(frozen=True, slots=True)
class Within:
    """Marks a duration field with its bounds: a `timedelta` in Python, a string in the CRD."""

    least: str
    most: str
    example: str

    @property
    def _text(self) -> str:
        return _SHORT_TEXT if "ms" in self.least else _TEXT

    @property
    def _rule(self) -> str:
        return f"must be a duration of at least `{self.least}` and at most `{self.most}`, for example `{self.example}`"

    def _read(self, value: object) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            length = duration(value if isinstance(value, str) and re.fullmatch(self._text, value) else "")
        except ValueError:
            raise ValueError(self._rule) from None
        if not duration(self.least) <= length <= duration(self.most):
            raise ValueError(self._rule)
        return length

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:  # noqa: ANN401 - pydantic's protocol
        from pydantic_core import core_schema  # noqa: PLC0415 - only the schema's construction needs it

        return core_schema.no_info_before_validator_function(self._read, core_schema.timedelta_schema())

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:  # noqa: ANN401 - pydantic's protocol
        bounds = f"duration('{self.least}') <= duration(self) && duration(self) <= duration('{self.most}')"
        return {
            "type": "string",
            "maxLength": _LONGEST_TEXT,
            "x-kubernetes-validations": [
                {"rule": f"self.matches('{self._text}') && {bounds}", "message": f"the value {self._rule}"}
            ],
        }
