"""Translates pydantic's errors about the spec into messages for users: field, problem and cure."""

import re
from collections.abc import Callable, Mapping, Sequence

from pydantic_core import ErrorDetails

from inference_operator.api.field_hints import field_hint, value_hint
from inference_operator.api.hardware import MEMORY_FORM
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.validation import QUANTITY

Path = Sequence[int | str]
"""Path of a field below `spec`: names, and indices of list items."""

_FORMAT_CURES: Mapping[str, str] = {
    QUANTITY: "Use a Kubernetes quantity, for example `500m`, `2` or `16Gi`.",
    MEMORY_FORM: "Use whole GiB, for example `40Gi`.",
}
_MAX_QUOTED_LENGTH = 60


def field_error(error: ErrorDetails) -> Refusal:
    """The field, problem and cure of one of pydantic's errors."""
    path: Path = [step for step in error["loc"] if step != "[key]"]
    problem, cure = _WRONG_TYPES.get(error["type"]) or _TRANSLATORS.get(error["type"], _other)(error, path)
    return Refusal(Reason.INVALID_SPEC, field_name(path), problem, cure)


def causes(errors: Sequence[ErrorDetails]) -> Sequence[ErrorDetails]:
    """The errors without those of a list or object that only follow from others inside it, such as too few items."""
    paths = [error["loc"] for error in errors]
    return [
        error
        for error in errors
        if not any(len(p) > len(error["loc"]) and p[: len(error["loc"])] == error["loc"] for p in paths)
    ]


def field_name(path: Path) -> str:
    return "spec" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


Translator = Callable[[ErrorDetails, Path], tuple[str, str]]


def _unknown(_: ErrorDetails, path: Path) -> tuple[str, str]:
    section = [step for step in path[:-1] if isinstance(step, str)]
    hint = field_hint(section, str(path[-1]))
    return "is not a field of this API version.", hint or f"Remove it. `{_explain(path[:-1])}` lists all fields."


def _not_allowed(error: ErrorDetails, _: Path) -> tuple[str, str]:
    expected = str(error.get("ctx", {}).get("expected", ""))
    if isinstance(error["input"], str) and "'" not in expected:
        return INTEGER
    hint = value_hint(str(error["input"])[:_MAX_QUOTED_LENGTH], re.findall(r"'([^']*)'", expected))
    allowed = expected.replace("'", "`")
    return f"{_quoted(error)} is not allowed.", " ".join(filter(None, (hint, f"Use {allowed}.")))


def _wrong_format(error: ErrorDetails, path: Path) -> tuple[str, str]:
    pattern = str(error.get("ctx", {}).get("pattern", ""))
    return f"{_quoted(error)} has an invalid format.", _FORMAT_CURES.get(pattern, f"See `{_explain(path)}`.")


def _bound(key: str, problem: str, cure: str) -> Translator:
    def translate(error: ErrorDetails, _: Path) -> tuple[str, str]:
        return problem.format(_quoted(error)), cure.format(f"{error.get('ctx', {}).get(key, 0):.15g}")

    return translate


def _other(_: ErrorDetails, path: Path) -> tuple[str, str]:
    return "has an invalid value.", f"See `{_explain(path)}`."


STRING = "must be a string.", "Put the value in quotes."
INTEGER = "must be an integer.", "Write it without quotes."
DIGITS = "must be an integer.", "Write it in digits and without quotes, for example `32768`."
NUMBER = "must be a number.", "Write it without quotes."
BOOLEAN = "must be `true` or `false`.", "Write it without quotes."
LIST = "must be a list.", "Write a list, for example `[a, b]`."
OBJECT = "must be an object.", "Write its fields below it, one per line and indented."
_WRONG_TYPES: Mapping[str, tuple[str, str]] = {
    "string_type": STRING,
    "int_type": INTEGER,
    "int_parsing": DIGITS,
    "int_from_float": INTEGER,
    "int_parsing_size": INTEGER,
    "finite_number": NUMBER,
    "float_type": NUMBER,
    "float_parsing": NUMBER,
    "bool_type": BOOLEAN,
    "bool_parsing": BOOLEAN,
    "tuple_type": LIST,
    "dict_type": OBJECT,
    "model_type": OBJECT,
    "model_attributes_type": OBJECT,
}
_TRANSLATORS: Mapping[str, Translator] = {
    "missing": lambda _, path: ("is required.", f"Set it. `{_explain(path)}` describes it."),
    "extra_forbidden": _unknown,
    "enum": _not_allowed,
    "literal_error": _not_allowed,
    "string_pattern_mismatch": _wrong_format,
    "greater_than_equal": _bound("ge", "{} is too small.", "Use {} or more."),
    "less_than_equal": _bound("le", "{} is too large.", "Use {} or less."),
    "string_too_short": _bound("min_length", "is too short.", "Minimum length: {}."),
    "string_too_long": _bound("max_length", "is too long.", "Maximum length: {}."),
    "too_short": _bound("min_length", "has too few items.", "Minimum: {}."),
    "too_long": _bound("max_length", "has too many items.", "Maximum: {}."),
    "value_error": lambda error, _: (
        f"{error['msg'].removeprefix('Value error, ')}.",
        "Change the field.",
    ),  # of a rule
}


def _quoted(error: ErrorDetails) -> str:
    text = str(error["input"])
    return f"`{text}`" if len(text) <= _MAX_QUOTED_LENGTH else "The value"


def _explain(path: Path) -> str:
    return f"kubectl explain infd.{'.'.join(['spec', *(step for step in path if isinstance(step, str))])}"
