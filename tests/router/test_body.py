"""The expression that finds the model of a body: never another one than an engine takes."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_operator.router.body import DEPTH, NAME_BYTES, model_expression
from tests.testing.json_bodies import honest_bodies
from tests.testing.named_models import engines_model, odd_bodies

EXPRESSION = re.compile(model_expression().encode())
FEW, MANY = 4_000, 100_000
REFUSED = object()


def read(body: bytes) -> object:
    """The model, None without one, or REFUSED."""
    found = EXPRESSION.match(body)
    if not found:
        return REFUSED
    return found[2].replace(rb"\/", b"/").decode(errors="replace") if found[2] is not None else None


def nested(depth: int) -> bytes:
    return b'{"tools": ' + b"[" * depth + b"]" * depth + b', "model": "sql"}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"sql","messages":[]}', "sql"),
        (b' {\r\n"messages" : [{"model":"x"}, "\\"model\\":\\"y\\"}"] ,\t"model" : "sql"}\n\n', "sql"),
        (rb'{"model":"org\/sql"}', "org/sql"),
        (b'{"prompt":"x"}', None),
        (b'{"model":null}', None),
        (b"{}", None),
        (b'{"models":"x","a":"model","b":{"mod\\u0065l":"y"}}', None),
        (nested(DEPTH), "sql"),
        (nested(DEPTH + 1), REFUSED),
        (b'{"model":"chat","prompt":"x","model":"sql"}', REFUSED),
        (b'{"model":null,"model":"sql"}', REFUSED),
        (rb'{"mod\u0065l":"sql"}', REFUSED),
        (rb'{"model":"ch\u0061t"}', REFUSED),
        (b'{"model":7}', REFUSED),
        (b'{"model":{"model":"sql"}}', REFUSED),
        (b'[{"model":"sql"}]', REFUSED),
        (b'{"model":"sql"', REFUSED),
        (b'{"model":"sql"} {}', REFUSED),
        (b"\xef\xbb\xbf" + b'{"model":"sql"}', REFUSED),
        ('{"model":"sql"}'.encode("utf-16"), REFUSED),
        ('{"model":"sql"}'.encode("utf-16-le"), REFUSED),
        ('{"model":"sql"}'.encode("utf-32-be"), REFUSED),
        (b"", REFUSED),
    ],
)
def test_a_body_has_one_model_or_none_or_is_refused(body: bytes, expected: object) -> None:
    assert read(body) == expected


@pytest.mark.parametrize("form", honest_bodies())
def test_the_model_of_large_bodies_of_agents_is_found(form: str) -> None:
    assert read(honest_bodies()[form]) == "chat"


def check(bodies: Any) -> None:  # noqa: ANN401 - bytes of any source
    """What the expression reads is what an engine takes, wherever the engine takes the body."""
    for body in bodies:
        if (found := read(body)) is not REFUSED:
            try:
                taken = engines_model(body)
            except ValueError:
                continue
            assert found == taken, body


def test_no_odd_body_has_another_model_than_the_engine_takes() -> None:
    check(odd_bodies(1, FEW))


@pytest.mark.full
def test_no_one_of_a_hundred_thousand_odd_bodies_has_another_model_than_the_engine_takes() -> None:
    check(odd_bodies(2, MANY))


_KEY = st.text(st.characters(exclude_characters='"\\', exclude_categories=["C"]))
_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(
    before=st.dictionaries(_KEY, _VALUE, max_size=3),
    behind=st.dictionaries(_KEY, _VALUE, max_size=3),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
@settings(deadline=None)
def test_the_model_is_found_among_any_other_members(
    before: dict[str, object], behind: dict[str, object], indent: int | None, *, ascii_only: bool
) -> None:
    first = {key: value for key, value in before.items() if key not in behind}
    body: dict[str, object] = {**first, "model": "sql", **behind} | {"model": "sql"}
    keys_escaped = ascii_only and any(not key.isascii() for key in body)
    raw = json.dumps(body, ensure_ascii=ascii_only, indent=indent).encode(errors="surrogatepass")
    assert read(raw) == (REFUSED if keys_escaped else "sql")


def test_a_cut_name_is_no_name_of_a_model() -> None:
    longest = "/".join(["a"] * 127)
    assert len(longest) == 253
    assert len(longest.replace("/", r"\/")) < NAME_BYTES
