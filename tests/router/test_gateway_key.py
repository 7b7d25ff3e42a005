"""The Lua script that reads the keys of gateways: which keys are valid, and until when."""

import pytest

from tests.testing.lua_scripts import script

A, B, C = b"a" * 64, b"b" * 64, b"c" * 64
FORMER = 900
NONE = (None, None)


def test_after_a_rotation_both_keys_are_valid_for_fifteen_minutes() -> None:
    valid = script("gateway_key.lua")
    steps = [(None, 0, NONE), (A + b"\n", 5, (A, None)), (None, 10, (A, None)), (B, 60, (B, A))]
    steps += [(B, 59 + FORMER, (B, A)), (B, 60 + FORMER, (B, None)), (C, 9000, (C, B)), (A, 9001, (A, C))]
    for text, now, wanted in steps:
        assert _pair(valid(text, now)) == wanted


def test_without_the_secret_the_last_key_ends_after_fifteen_minutes_and_another_may_come() -> None:
    valid = script("gateway_key.lua")
    steps = [(A, 0, (A, None)), (b"", 100, (A, None)), (None, 99 + FORMER, (A, None)), (None, 100 + FORMER, NONE)]
    steps += [(A, 2000, (A, None)), (b"", 2001, (A, None)), (A, 2002, (A, None)), (b"", 2001 + FORMER, (A, None))]
    for text, now, wanted in steps:
        assert _pair(valid(text, now)) == wanted


@pytest.mark.parametrize("text", [None, b"", b"\n", b"a" * 31, A + b" b", A + b"\n" + B, A + b'"\r\nX: y', b"%[src]"])
def test_what_is_no_key_is_never_valid(text: bytes | None) -> None:
    assert _pair(script("gateway_key.lua")(text, 0)) == NONE


def _pair(found: object) -> tuple[object, object]:
    return found if isinstance(found, tuple) else (found, None)
