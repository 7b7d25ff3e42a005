"""What is wrong with a field of the spec, in words for its user: pydantic's own are for programmers."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import get_args

from pydantic_core import ErrorDetails

from inference_operator.api.gpu import MEMORY_FORM
from inference_operator.api.part import QUANTITY, Part
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec

Path = Sequence[int | str]
"""Where a field is below `spec`: names, and numbers of items."""

_FORMS: Mapping[str, str] = {
    QUANTITY: "Write a Kubernetes quantity, for example `500m`, `2` or `16Gi`.",
    MEMORY_FORM: "Write whole GiB, for example `40Gi`.",
}
"""What a text of a form is, where a user may well write it in another."""
_LONGEST_QUOTED = 60
"""Characters of a value that are repeated in a message."""


def mistake(error: ErrorDetails) -> Refusal:
    """Field, problem and cure of one of pydantic's errors.

    Examples:
        >>> from pydantic import ValidationError
        >>> try:
        ...     Spec.model_validate({"model": {"source": "hf://a/b"}, "repilcas": 2})
        ... except ValidationError as error:
        ...     print(mistake(error.errors()[0]).message)
        spec.repilcas: is no field of this version. Did you mean `replicas`?
    """
    path: Path = [step for step in error["loc"] if step != "[key]"]
    problem, cure = _KINDS.get(error["type"]) or _WORDS.get(error["type"], _other)(error, path)
    return Refusal(Reason.INVALID_SPEC, field_name(path), problem, cure)


def field_name(path: Path) -> str:
    """How a field is called.

    Examples:
        >>> field_name(["engine", "args", 0])
        'spec.engine.args[0]'
    """
    return "spec" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


Words = Callable[[ErrorDetails, Path], tuple[str, str]]


def _missing(_: ErrorDetails, path: Path) -> tuple[str, str]:
    return "is required.", f"Set it; `{_explain(path)}` says how."


def _unknown(_: ErrorDetails, path: Path) -> tuple[str, str]:
    siblings = _fields_of(path[:-1])
    near = get_close_matches(str(path[-1]), siblings, n=1)
    cure = f"Did you mean `{near[0]}`?" if near else f"Remove it; `{_explain(path[:-1])}` lists what there is."
    return "is no field of this version.", cure


def _enumerated(error: ErrorDetails, _: Path) -> tuple[str, str]:
    allowed = str(error.get("ctx", {}).get("expected", "")).replace("'", "`")
    return f"{_quoted(error)} is not allowed.", f"Write {allowed}."


def _formed(error: ErrorDetails, path: Path) -> tuple[str, str]:
    pattern = str(error.get("ctx", {}).get("pattern", ""))
    return f"{_quoted(error)} has a form that cannot be used.", _FORMS.get(pattern, f"See `{_explain(path)}`.")


def _bound(key: str, problem: str, cure: str) -> Words:
    def words(error: ErrorDetails, _: Path) -> tuple[str, str]:
        return problem.format(_quoted(error)), cure.format(f"{error.get('ctx', {}).get(key, 0):.15g}")

    return words


def _ruled(error: ErrorDetails, _: Path) -> tuple[str, str]:
    """A rule of our own says what is allowed, with an example."""
    return f"{error['msg'].removeprefix('Value error, ')}.", "Correct the field."


def _other(_: ErrorDetails, path: Path) -> tuple[str, str]:
    return "has a value that cannot be used.", f"See `{_explain(path)}`."


TEXT = "must be text.", 'Write it in quotes: "…".'
WHOLE = "must be a whole number.", "Write one without quotes."
NUMBER = "must be a number.", "Write one without quotes."
SWITCH = "must be `true` or `false`.", "Write one of them without quotes."
LIST = "must be a list.", "Write one, for example `[a, b]`."
OBJECT = "must be an object.", "Write its fields below it, one a line and indented."
_KINDS: Mapping[str, tuple[str, str]] = {
    "string_type": TEXT,
    "int_type": WHOLE,
    "int_parsing": WHOLE,
    "int_from_float": WHOLE,
    "int_parsing_size": WHOLE,
    "finite_number": NUMBER,
    "float_type": NUMBER,
    "float_parsing": NUMBER,
    "bool_type": SWITCH,
    "bool_parsing": SWITCH,
    "tuple_type": LIST,
    "dict_type": OBJECT,
    "model_type": OBJECT,
    "model_attributes_type": OBJECT,
}
"""By pydantic's name of the error: values of another kind."""
_WORDS: Mapping[str, Words] = {
    "missing": _missing,
    "extra_forbidden": _unknown,
    "enum": _enumerated,
    "string_pattern_mismatch": _formed,
    "greater_than_equal": _bound("ge", "{} is too small.", "Write {} or more."),
    "less_than_equal": _bound("le", "{} is too large.", "Write {} or less."),
    "string_too_short": _bound("min_length", "is too short.", "It has at least so many characters: {}."),
    "string_too_long": _bound("max_length", "is too long.", "It has at most {} characters."),
    "too_short": _bound("min_length", "has too few items.", "It has at least so many: {}."),
    "too_long": _bound("max_length", "has too many items.", "It has at most {}."),
    "value_error": _ruled,
}
"""By pydantic's name of the error."""


def _quoted(error: ErrorDetails) -> str:
    text = str(error["input"])
    return f"`{text}`" if len(text) <= _LONGEST_QUOTED else "What is written"


def _explain(path: Path) -> str:
    return f"kubectl explain infd.{'.'.join(['spec', *(step for step in path if isinstance(step, str))])}"


def _fields_of(path: Path) -> Sequence[str]:
    """The fields of the part that is there; none where there is no part."""
    part: type[Part] | None = Spec
    for step in path:
        if part is not None and isinstance(step, str):
            field = next((one for one in part.model_fields.values() if one.alias == step), None)
            part = _part_of(field.annotation) if field else None
    return [one.alias for one in part.model_fields.values() if one.alias] if part else []


def _part_of(annotation: object) -> type[Part] | None:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    return next((part for one in get_args(annotation) if (part := _part_of(one)) is not None), None)
