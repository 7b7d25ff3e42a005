"""The Lua script of adapters: which names it takes, and what it answers about models."""

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.testing.lua_scripts import counted_script, script

LUA = script("adapters.lua")
BASE, ADAPTERS = ["qwen", "Qwen/Qwen3-8B"], ["sql", "org/summary", "summary-v2"]
MOST_INSTRUCTIONS = 500_000
"""Of the answer to an unknown name among as many long names as there can be: some milliseconds."""
NAMES = st.text(string.ascii_letters + string.digits + "-._/:", min_size=1, max_size=20)


def parsed(text: bytes) -> list[str]:
    return [name.decode() for name in LUA[b"parsed"](text).values()]


def table(names: list[str]) -> Any:  # noqa: ANN401 - a table of Lua
    return LUA[b"parsed"]("\n".join(names).encode())


def unknown(asked: str | bytes, names: list[str]) -> dict[str, Any]:
    raw = asked.encode() if isinstance(asked, str) else asked
    found: dict[str, Any] = json.loads(LUA[b"unknown"](raw, table(names)).decode())["error"]
    return found


def answer(path: str) -> tuple[int, dict[str, Any]]:
    status, body = LUA[b"answer"](path.encode(), table(BASE), table(ADAPTERS), 7)
    return status, json.loads(body.decode())


def test_a_line_is_the_name_of_an_adapter() -> None:
    assert parsed(b"sql\norg/summary\r\n\nsql\n") == ["sql", "org/summary"]


@pytest.mark.parametrize("line", [b"", b" ", b"a b", b'a"', b"-a", b"\xc3\xa9", b"a" * 254, b"%[env(PATH)]", b"a\0"])
def test_a_line_that_is_no_name_is_skipped(line: bytes) -> None:
    assert parsed(b"sql\n" + line + b"\nchat") == ["sql", "chat"]


@given(st.binary(max_size=300))
def test_any_file_gives_names_only(text: bytes) -> None:
    assert all(set(name) <= set(string.ascii_letters + string.digits + "-._/:") for name in parsed(text))


def test_all_models_are_listed_with_the_parent_of_the_adapters() -> None:
    status, found = answer("/v1/models")
    assert status == 200
    assert [(one["id"], one.get("parent")) for one in found["data"]] == [
        *((name, None) for name in BASE),
        *((name, "qwen") for name in ADAPTERS),
    ]


@pytest.mark.parametrize("path", ["/v1/models/org/summary", "/v1/models/org%2Fsummary"])
def test_one_model_is_shown_by_its_name(path: str) -> None:
    assert answer(path)[1]["id"] == "org/summary"


@pytest.mark.parametrize(
    ("asked", "near"),
    [("sqll", "sql"), ("SQL", "sql"), ("org/sumary", "org/summary"), ("summary-v3", "summary-v2"), ("qwen3", "qwen")],
)
def test_an_unknown_name_gets_the_nearest_one(asked: str, near: str) -> None:
    found = unknown(asked, [*BASE, *ADAPTERS])
    assert found["message"] == f"the model `{asked}` does not exist. Did you mean `{near}`?"
    assert (found["type"], found["param"], found["code"]) == ("invalid_request_error", "model", "model_not_found")


def test_a_name_that_is_near_to_none_gets_none() -> None:
    assert unknown("gpt-4o", [*BASE, *ADAPTERS])["message"] == "the model `gpt-4o` does not exist"


@pytest.mark.parametrize("asked", ['a"}', "a\n", "a" * 254, "é", "", "%[env(PATH)]", "<b>"])
def test_a_text_that_is_no_name_is_not_repeated(asked: str) -> None:
    assert unknown(asked, BASE)["message"] == "the model does not exist"


@given(st.binary(max_size=300), st.lists(NAMES, max_size=5))
def test_the_answer_to_any_name_is_json(asked: bytes, names: list[str]) -> None:
    assert unknown(asked, names)["code"] == "model_not_found"


def test_the_answer_to_an_unknown_name_costs_little() -> None:
    loaded, count = counted_script("adapters.lua")
    names = loaded[b"parsed"]("\n".join(f"{n:03}{'abcdefgh' * 15}" for n in range(66)).encode())
    instructions, _ = count(loaded[b"unknown"], b"b" * 128, names)
    assert instructions < MOST_INSTRUCTIONS
