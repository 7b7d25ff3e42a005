"""What the parts of the spec are made of: rules that the API server and pydantic enforce alike.

Each rule stands once, in CEL for the API server and in Python for resources that come from a file; generated
resources are put to both in the tests.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
"""Kubernetes quantities without signs and exponents (apimachinery, pkg/api/resource)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold of a value, with words for people.

    Examples:
        >>> Rule("self.size() > 1", lambda value: len(value) > 1, "`list` must have two items").schema
        {'rule': 'self.size() > 1', 'message': '`list` must have two items'}
    """

    cel: str
    holds: Callable[[Any], bool]
    message: str
    """Says what is allowed; the API server puts the field before it."""
    expression: str | None = None
    """The message in CEL, where the value helps."""

    @property
    def schema(self) -> dict[str, str]:
        """As it stands in the CRD."""
        told = {"messageExpression": self.expression} if self.expression else {}
        return {"rule": self.cel, "message": self.message, **told}


def cel(*rules: Rule) -> dict[str, Any]:
    """The rules for the schema of a model or field."""
    return {"x-kubernetes-validations": [rule.schema for rule in rules]}


class Part(BaseModel):
    """A part of the spec: camelCase outside, immutable inside, no unknown fields, and rules over its fields."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, extra="forbid")

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        for rule in self.rules:
            if not rule.holds(self):
                raise ValueError(rule.message)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The schema with the rules."""
        result = handler.resolve_ref_schema(handler(schema))
        return {**result, **cel(*cls.rules)} if cls.rules else result


@dataclass(frozen=True, slots=True)
class Must:
    """Marks a field with rules of its own: `Annotated[str, Must(rule)]`."""

    rules: tuple[Rule, ...]

    def __init__(self, *rules: Rule) -> None:
        object.__setattr__(self, "rules", rules)

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Pydantic's side."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The API server's side."""
        return {**handler(schema), **cel(*self.rules)}

    def _check(self, value: object) -> object:
        for rule in self.rules:
            if not rule.holds(value):
                raise ValueError(rule.message)
        return value


def form(pattern: str, message: str) -> Rule:
    """The rule that a text has a form.

    Args:
        pattern: a regular expression for the whole text, read alike by RE2 and Python.
        message: what a text of that form is, with an example.

    Examples:
        >>> rule = form("[a-z]+", "must be a word")
        >>> rule.holds("a"), rule.holds("a1"), rule.schema["messageExpression"]
        (True, False, "'`' + self + '` must be a word'")
    """
    matches = re.compile(pattern).fullmatch
    return Rule(
        f"self.matches({_literal(f'^(?:{pattern})$')})",
        lambda value: matches(value) is not None,
        message,
        f"'`' + self + {_literal(f'` {message}')}",
    )


def keys_form(pattern: str, message: str, *, longest: int) -> Rule:
    """The rule that every key of a map has a form, and at most so many characters."""
    matches = re.compile(pattern).fullmatch
    return Rule(
        f"self.all(key, key.size() <= {longest} && key.matches({_literal(f'^(?:{pattern})$')}))",
        lambda value: all(len(key) <= longest and matches(key) for key in value),
        message,
    )


def _literal(text: str) -> str:
    r"""A CEL string.

    Examples:
        >>> print(_literal(r"^a\.b's$"))
        '^a\\.b\'s$'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _text(value: object) -> object:
    """YAML reads `cpu: 2` as a number; a quantity is text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class _Quantity:
    """Marks a quantity: text here, an integer or text in the CRD."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            _text, core_schema.str_schema(pattern=QUANTITY, max_length=32)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": 32,
            "pattern": QUANTITY,
        }


Quantity = Annotated[str, _Quantity]
