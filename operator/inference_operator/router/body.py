"""The model that a JSON body names, which one regular expression finds in one pass: the values of body.cfg.j2.

Of valid JSON the expression takes only what every parser reads alike: one object in UTF-8 without a byte order mark,
whose keys have no escapes, with `model` at most once. What is not JSON may match too: the engine refuses it.
"""

from collections.abc import Mapping
from functools import cache

from inference_operator.router.error_response import INVALID, ErrorResponse
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.resources import buffered_body_bytes

DEPTH = 64
"""Nested arrays and objects in a body. Tools of agents have about 20: two for each level of a JSON schema."""

STEPS = 1_000_000
"""Most iterations of the groups of the expression (`LIMIT_MATCH` of PCRE2): 5 ms. 64 KiB of tools take 20,000."""

NAME_BYTES = 512
"""More than a name of a model can have: 253 letters, of which each slash may have a backslash."""

FULL_MARGIN_BYTES = 1024
"""What a full buffer has free beside the part for headers (HAProxy 3.2, `tune.maxrewrite`)."""

_BLANK = r"[ \t\r\n]*+"
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SCALAR = r'[^]\["{}, \t\r\n]++'

_UNREADABLE = ErrorResponse(
    400,
    INVALID,
    "invalid_json",
    "the body must be one JSON object in UTF-8 that names its `model` once, as a text without escapes, and whose keys"
    f" have no escapes; at most {DEPTH} arrays and objects may be nested",
    param="model",
)


@cache
def model_expression() -> str:
    """A regular expression of a whole body, for PCRE2 and for Python's `re`: its second group is the model.

    It never goes back: all its repetitions are possessive.
    """
    value = f"(?:{_STRING}|{_nested(DEPTH)}|{_SCALAR})"
    other = rf'"(?!model")[^"\\]*+"{_BLANK}:{_BLANK}{value}'
    name = r'("([^"\\]*+(?:\\/[^"\\]*+)*+)"|null)'
    model = f'(?(1)(?!)|"model"{_BLANK}:{_BLANK}{name})'
    member = f"(?:{other}|{model}){_BLANK},?{_BLANK}"
    # Python takes a body whose second byte is zero for UTF-16 or UTF-32 (3.13, json/__init__.py, `detect_encoding`).
    return rf"(?s)^{_BLANK}{{(?!\x00){_BLANK}(?:{member})*+}}{_BLANK}$"


def _nested(depth: int) -> str:
    """An array or object. Which bracket ends it does not matter: in valid JSON it is the right one."""
    inner = f"(?:{_STRING}|{_nested(depth - 1)})" if depth > 1 else _STRING
    return rf'[\[{{][^]\["{{}}]*+(?:{inner}[^]\["{{}}]*+)*+[]}}]'


def values(inputs: RouterInputs) -> Mapping[str, object]:
    return {
        "expression": _argument(f"(*LIMIT_MATCH={STEPS}){model_expression()}"),
        "full_bytes": buffered_body_bytes(inputs.spec) - FULL_MARGIN_BYTES,
    }


def _argument(text: str) -> str:
    """A text as an argument of a converter, inside single quotes of the configuration (HAProxy 3.2, 2.2)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
