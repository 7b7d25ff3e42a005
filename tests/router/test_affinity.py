"""The Lua script that finds what later requests are likely to repeat."""

import json
import random
import string
from collections.abc import Callable
from importlib.resources import files

import lupa.lua54
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

LENGTH = 1024
BASE = b"chat,Qwen/Qwen3-8B"
LONG = "x" * 4096

Affinity = Callable[[bytes, bytes], tuple[bytes | None, bytes | None]]


def _script() -> Affinity:
    source = files("inference_operator.router").joinpath("affinity.lua").read_bytes()
    script: Affinity = lupa.lua54.LuaRuntime(encoding=None).execute(source)
    return script


AFFINITY = _script()


def texts(body: object, names: bytes = BASE) -> tuple[str | None, str | None]:
    """The system text and the conversation of a body, which is JSON-like data or bytes."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    system, conversation = AFFINITY(raw, names)
    return None if system is None else system.decode(), None if conversation is None else conversation.decode()


def _user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


SYSTEM = {"role": "system", "content": "Be brief."}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param({"messages": [SYSTEM, _user("Hi")]}, ("Be brief.", "Hi"), id="chat"),
        pytest.param({"messages": [{"role": "developer", "content": "D"}, _user("Hi")]}, ("D", "Hi"), id="developer"),
        pytest.param({"messages": [_user([{"type": "text", "text": "Hi"}])]}, ("", "Hi"), id="parts"),
        pytest.param({"messages": [_user([IMAGE, {"type": "text", "text": "Hi"}])]}, ("", "Hi"), id="image first"),
        pytest.param({"messages": [{"content": "Hi", "role": "user"}]}, ("", "Hi"), id="content before role"),
        pytest.param({"prompt": "Hi"}, ("", "Hi"), id="prompt"),
        pytest.param({"prompt": ["Hi", "there"]}, ("", '["Hi", "there"]'), id="prompts"),
        pytest.param({"prompt": [1, 22, 3]}, ("", "[1, 22, 3]"), id="token ids"),
        pytest.param({"input": "Hi"}, ("", "Hi"), id="input"),
        pytest.param({"input": ["Hi", "there"]}, ("", '["Hi", "there"]'), id="inputs"),
        pytest.param({"input": [_user("Hi")], "instructions": "Be brief."}, ("Be brief.", "Hi"), id="responses"),
        pytest.param({"system": "Be brief.", "messages": [_user("Hi")]}, ("Be brief.", "Hi"), id="system beside it"),
        pytest.param({"messages": [_user("日本")]}, ("", r"\u65e5\u672c"), id="escaped"),
        pytest.param('{"messages":[{"role":"user","content":"日本"}]}'.encode(), ("", "日本"), id="not escaped"),
        pytest.param({"messages": [_user('say "user"')]}, ("", r"say \"user\""), id="quotes"),
        pytest.param({"messages": [_user("a\\")]}, ("", "a\\\\"), id="backslash at the end"),
        pytest.param({"metadata": {"messages": [_user("no")]}, "prompt": "Hi"}, ("", "Hi"), id="nested"),
        pytest.param({"messages": [_user('{"role":"user","content":"no"}')], "n": 1}, None, id="JSON in a text"),
        pytest.param(b'{"messages":[{"role":"user","content":"cut o', ("", "cut o"), id="cut"),
    ],
)
def test_the_texts_of_a_body_are_found(body: object, expected: tuple[str, str] | None) -> None:
    assert texts(body) == (expected or ("", r"{\"role\":\"user\",\"content\":\"no\"}"))


@pytest.mark.parametrize("body", [b"", b"[1]", b"null", b"not JSON", b"{}", b'{"messages":[]}', b'{"messages":7}'])
def test_a_body_without_a_conversation_has_no_texts(body: bytes) -> None:
    assert texts(body) == (None, None)


def test_all_turns_of_a_conversation_have_the_same_texts() -> None:
    messages = [SYSTEM, _user("Hi")]
    first = texts({"model": "chat", "messages": messages})
    for _ in range(3):
        messages = [*messages, {"role": "assistant", "content": "Hello"}, _user("And then?")]
        assert texts({"messages": messages, "stream": True, "model": "Qwen/Qwen3-8B"}) == first


def test_the_adapter_is_part_of_the_texts_and_the_names_of_the_base_model_are_not() -> None:
    body = {"messages": [SYSTEM, _user("Hi")]}
    assert texts({"model": "chat", **body}) == texts({"model": "Qwen/Qwen3-8B", **body}) == ("Be brief.", "Hi")
    assert texts({"model": "german", **body}) == ("german\nBe brief.", "german\nHi")


@pytest.mark.parametrize("where", ["before", "in the system prompt"])
def test_the_conversation_is_found_behind_almost_a_mebibyte(where: str) -> None:
    filler = '"quoted" \n' * 75_000
    system = {"role": "system", "content": filler if where != "before" else "S"}
    body = {"metadata": filler if where == "before" else "", "messages": [system, _user(LONG)]}
    assert texts(body)[1] == "x" * LENGTH


@given(st.binary(max_size=400) | st.text(alphabet='{}[]",:\\ aru', max_size=200).map(str.encode))
@settings(deadline=None)
def test_any_bytes_end_without_an_error(body: bytes) -> None:
    system, conversation = AFFINITY(body, BASE)
    assert conversation is None or (system is not None and len(conversation) <= len(body))


SEEDS = [
    json.dumps(body).encode()
    for body in (
        {"model": "chat", "messages": [SYSTEM, _user("Hi"), {"role": "assistant", "content": "Hello"}, _user("?")]},
        {"messages": [_user([IMAGE, {"type": "text", "text": 'a \\"quoted\\" text'}])], "model": "adapter"},
        {"input": [_user([{"type": "input_text", "text": "Hi"}])], "instructions": "Be brief."},
        {"prompt": [[1, 2, 3], [4]], "stop": ["}", "]", '"']},
    )
]


@pytest.mark.full
def test_a_hundred_thousand_damaged_bodies_end_without_an_error() -> None:
    chance = random.Random(5)  # noqa: S311 - no secret
    for number in range(100_000):
        body = bytearray(SEEDS[number % len(SEEDS)])
        for _ in range(chance.randrange(1, 6)):
            at, kind = chance.randrange(len(body) + 1), chance.randrange(3)
            piece = bytes(chance.choice(b'{}[]",:\\ \x00\xff1a') for _ in range(chance.randrange(4)))
            body[at : at + (kind and chance.randrange(20))] = piece
        system, conversation = AFFINITY(bytes(body), BASE)
        assert conversation is None or (system is not None and len(conversation) <= len(body))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


_FIELDS = st.dictionaries(st.text(alphabet=string.ascii_letters), _JSON, max_size=4)


@given(others=_FIELDS, text=st.text(min_size=1), ascii_only=st.booleans())
@settings(deadline=None)
def test_the_first_user_message_is_found_among_any_other_fields(
    others: dict[str, object], text: str, *, ascii_only: bool
) -> None:
    named = {"input", "prompt", "system", "instructions", "model", "messages"}
    body = {key: value for key, value in others.items() if key not in named}
    raw = json.dumps({**body, "messages": [_user(text)], "n": body}, ensure_ascii=ascii_only)
    expected = json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode(errors="surrogatepass")[:LENGTH]
    assert AFFINITY(raw.encode(errors="surrogatepass"), BASE) == (b"", expected)
