"""Base model, validation rules and shared types of the spec, each enforced by the API server (CEL) and by pydantic.

Each rule is written once, in CEL for the API server and in Python for resources that come from a file. Tests put
generated resources to both. Labels and names follow apimachinery 0.36, pkg/util/validation.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from inference_operator.manifest import CLAIM, CONFIG_MAP, SECRET, Kind

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
"""Kubernetes quantities without signs and exponents (apimachinery, pkg/api/resource)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that a value must meet, with the message for a value that does not."""

    cel: str
    holds: Callable[[Any], bool]
    message: str
    """Says what is allowed; the API server puts the field's path before it."""
    expression: str | None = None
    """The message as a CEL expression, where it quotes the value."""

    @property
    def schema(self) -> dict[str, str]:
        """The rule as an item of `x-kubernetes-validations`."""
        message = {"messageExpression": self.expression} if self.expression else {}
        return {"rule": self.cel, "message": self.message, **message}


def cel(*rules: Rule) -> dict[str, Any]:
    return {"x-kubernetes-validations": [rule.schema for rule in rules]}


class SpecModel(BaseModel):
    """Base of all models of the spec: camelCase names, immutable, no unknown fields, and rules over several fields."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, extra="forbid")

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        for rule in self.rules:
            if not rule.holds(self):
                raise ValueError(rule.message)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        result = handler.resolve_ref_schema(handler(schema))
        return {**result, **(cel(*cls.rules) if cls.rules else {})}


class CelRules:
    """Adds rules to one field: `Annotated[str, CelRules(rule)]`."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The check that pydantic runs."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The check that the API server runs."""
        return {**handler(schema), **cel(*self.rules)}

    def _check(self, value: object) -> object:
        for rule in self.rules:
            if not rule.holds(value):
                raise ValueError(rule.message)
        return value


def unique(message: str, *, by: str = "") -> AfterValidator:
    """That no two items of a list are the same, or have the same value of one field."""

    def check(items: tuple[Any, ...]) -> tuple[Any, ...]:
        if len({getattr(item, by) if by else item for item in items}) != len(items):
            raise ValueError(message)
        return items

    return AfterValidator(check)


def matches(pattern: str, message: str) -> Rule:
    """The rule that a string matches a pattern.

    Args:
        pattern: a regular expression for the whole string, read alike by RE2 and Python.
        message: what a valid string is, with an example.

    Examples:
        >>> rule = matches("[a-z]+", "must be a word")
        >>> rule.holds("a"), rule.holds("a1"), rule.schema["messageExpression"]
        (True, False, "'`' + self + '` must be a word'")
    """
    full_match = re.compile(pattern).fullmatch
    return Rule(
        f"self.matches({_cel_string(f'^(?:{pattern})$')})",
        lambda value: full_match(value) is not None,
        message,
        f"'`' + self + {_cel_string(f'` {message}')}",
    )


def keys_match(pattern: str, message: str, *, max_length: int) -> Rule:
    full_match = re.compile(pattern).fullmatch
    return Rule(
        f"self.all(key, key.size() <= {max_length} && key.matches({_cel_string(f'^(?:{pattern})$')}))",
        lambda value: all(len(key) <= max_length and full_match(key) for key in value),
        message,
    )


def _cel_string(text: str) -> str:
    r"""A CEL string literal.

    Examples:
        >>> print(_cel_string(r"^a\.b's$"))
        '^a\\.b\'s$'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _integer_as_text(value: object) -> object:
    """YAML reads `cpu: 2` as a number; a quantity is a string."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class _Quantity:
    """Marks a quantity: a string in Python, an integer or string in the CRD."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            _integer_as_text, core_schema.str_schema(pattern=QUANTITY, max_length=32)
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

_WORD = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SUBDOMAIN = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
LABEL_KEY = f"({_SUBDOMAIN}/)?{_WORD}"
EXTENDED_RESOURCE = f"{_SUBDOMAIN}/{_WORD}"
"""The name of a resource that is not Kubernetes' own: it has a domain (1.36, pkg/apis/core/v1/helper)."""
MAX_LABEL_KEY_LENGTH = 253 + 1 + 63
"""An optional DNS subdomain, `/`, and a name."""

LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL_KEY_LENGTH, pattern=f"^{LABEL_KEY}$")]
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=f"^({_WORD})?$")]
ObjectName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=f"^{_SUBDOMAIN}$")]


@dataclass(frozen=True, slots=True)
class NameOf:
    """Marks a string as the name of an object in the resource's namespace, which the pods get to read.

    The package `admission` finds the marked fields, and requires a right on the object of who sets them.
    """

    kind: Kind
    scheme: str = ""
    """Beginning of the strings that hold a name, up to the next `/`. Empty: the whole string is the name."""


SecretName = Annotated[ObjectName, NameOf(SECRET)]
ConfigMapName = Annotated[ObjectName, NameOf(CONFIG_MAP)]
ClaimName = Annotated[ObjectName, NameOf(CLAIM)]
LABEL_KEYS = keys_match(
    LABEL_KEY, "must have label keys, for example `nvidia.com/gpu.product`", max_length=MAX_LABEL_KEY_LENGTH
)
Labels = Annotated[dict[str, LabelValue], Field(max_length=32), CelRules(LABEL_KEYS)]
