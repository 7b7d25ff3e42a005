"""The Lua script that reads the key of the engines: which keys it takes, and when."""

import pytest

from tests.testing.lua_scripts import script

A, B, C = b"a" * 64, b"b" * 64, b"c" * 64
DELAY = 180


def test_the_first_key_is_sent_at_once_and_a_renewed_one_after_every_engine_has_it() -> None:
    changed = script("engine_key.lua")
    assert changed(A + b"\n", 0) == A
    assert [changed(A, now) for now in (5, 10)] == [None, None]
    assert [changed(B, now) for now in (100, 105, 100 + DELAY - 1, 100 + DELAY, 1000)] == [None, None, None, B, None]


def test_a_renewed_key_that_changes_again_waits_again() -> None:
    changed = script("engine_key.lua")
    assert changed(A, 0) == A
    assert [changed(key, now) for key, now in ((B, 10), (C, 100), (C, 10 + DELAY), (C, 100 + DELAY))] == [
        *(None, None, None),
        C,
    ]
    assert [changed(key, now) for key, now in ((A, 500), (C, 510), (A, 600), (A, 500 + DELAY))] == [None] * 4


@pytest.mark.parametrize("text", [None, b"", b"\n", b"a b", b'a"\r\nX: y', b"%[src]", b"a\nb"])
def test_what_is_no_key_changes_nothing(text: bytes | None) -> None:
    changed = script("engine_key.lua")
    assert changed(text, 0) is None
    assert changed(A, 1) == A
    assert changed(text, 2) is None
