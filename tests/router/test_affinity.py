"""The Lua script that finds what later requests are likely to repeat."""

import json
import random
import string
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inference_operator.router.long_bodies import SEARCHED_BYTES
from tests.testing.json_bodies import honest_bodies, hostile_bodies
from tests.testing.lua_scripts import counted_script, script

LENGTH = 1024
BASE = b"chat,Qwen/Qwen3-8B"
LONG = "x" * 4096

Affinity = Callable[..., tuple[bytes | None, bytes | None]]

AFFINITY: Affinity = script("affinity.lua")
COUNTED, COUNT = counted_script("affinity.lua")
MAX_INSTRUCTIONS, MAX_BYTES = 400_000, 4 * SEARCHED_BYTES
"""What the search in a body may take: about 2 ms of CPU each (`python -m bench.affinity`)."""


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
        pytest.param({"prompt": ["{]", [1], "Hi"], "n": 1}, ("", '["{]", [1], "Hi"]'), id="brackets in texts"),
        pytest.param({"input": [{"type": "x", "text": "Hi"}]}, ("", "Hi"), id="input of parts"),
        pytest.param({"messages": [_user(["a", {"text": "Hi"}])]}, ("", "Hi"), id="a text before a part"),
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
def test_the_conversation_is_found_at_the_end_of_a_full_buffer(where: str) -> None:
    filler = '"quoted" \n' * ((SEARCHED_BYTES - 2 * len(LONG)) // 13)
    system = {"role": "system", "content": filler if where != "before" else "S"}
    body = {"metadata": filler if where == "before" else "", "messages": [system, _user(LONG)]}
    assert texts(body)[1] == "x" * LENGTH


def _taken(body: bytes) -> tuple[int, int]:
    """Instructions of Lua, and bytes that are matched with patterns, for a search in this body."""
    taken: tuple[int, int] = COUNT(COUNTED, body, BASE)
    return taken


@pytest.mark.parametrize("form", hostile_bodies())
def test_the_search_in_any_body_takes_a_bounded_number_of_steps(form: str) -> None:
    instructions, read = _taken(hostile_bodies()[form])
    assert instructions <= MAX_INSTRUCTIONS
    assert read <= MAX_BYTES


PIECES = [b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b" ", b"1", b'"a":', b'"content":', b'"role":', b"x" * 300]


@given(
    st.sampled_from([b"", b'{"messages":[', b'{"input":[', b'{"messages":[{"content":[', b'{"a":"']),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map(b"".join),
)
@example(b'{"messages":[', b"{ }")
@settings(deadline=None, max_examples=50)
def test_the_search_in_repeated_pieces_takes_a_bounded_number_of_steps(start: bytes, piece: bytes) -> None:
    instructions, read = _taken((start + piece * (SEARCHED_BYTES // len(piece)))[:SEARCHED_BYTES])
    assert instructions <= MAX_INSTRUCTIONS
    assert read <= MAX_BYTES


@pytest.mark.parametrize("form", honest_bodies())
def test_large_bodies_of_agents_have_a_key_and_their_model_is_found(form: str) -> None:
    body = honest_bodies()[form]
    system, conversation = AFFINITY(body, b"other")
    assert system == b"chat\nBe brief."
    assert conversation is not None
    assert conversation.startswith(b"chat\nHi")


def test_the_search_ends_once_the_texts_and_the_model_are_found() -> None:
    start = json.dumps({"model": "chat", "messages": [SYSTEM, _user("Hi")]}).encode()[:-1]
    instructions, read = _taken(start + b', "tools": [' + b"{}, " * 50_000 + b"{}]}")
    assert instructions <= MAX_INSTRUCTIONS // 100
    assert read <= MAX_BYTES // 100


def test_objects_deeper_than_engines_accept_end_the_search() -> None:
    shallow, deep = b"[" * 200 + b"]" * 200, b"[" * 2000 + b"]" * 2000
    body = b'{"a": %s, "prompt": "Hi"}'
    assert AFFINITY(body % shallow, BASE) == (b"", b"Hi")
    assert AFFINITY(body % deep, BASE) == (None, None)


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


_ODD = st.text(alphabet='{}[]",:\\\n aé', max_size=30)
_TOOLS = st.lists(
    st.dictionaries(
        _ODD,
        st.recursive(_ODD, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_ODD, inner, max_size=4)),
        max_size=3,
    ),
    max_size=3,
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


_MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "developer", "user", "assistant"]), "content": _ODD}),
    max_size=3,
)
_OTHERS = st.dictionaries(st.sampled_from(["n", "system", "tools", "stop"]), _ODD | _TOOLS, max_size=3)


@given(messages=_MESSAGES, others=_OTHERS, compact=st.booleans(), window=st.integers(20, 300))
@example(messages=[SYSTEM, _user("Hi")], others={}, compact=True, window=100)
@settings(deadline=None)
def test_a_usual_beginning_and_a_part_of_a_body_have_the_texts_of_the_whole(
    messages: list[object], others: dict[str, object], window: int, *, compact: bool
) -> None:
    body = {"model": "adapter", "messages": messages, **others}
    raw = json.dumps(body, separators=(",", ":") if compact else None).encode()
    whole = AFFINITY(raw, BASE)
    assert AFFINITY(raw, BASE, len(raw) + 1) == whole
    assert AFFINITY(raw[:window], BASE, window) in {whole, (None, None)}
    assert len(raw) >= window or AFFINITY(raw, BASE, window) == whole


def test_the_texts_of_a_long_conversation_are_in_its_first_bytes() -> None:
    raw = json.dumps({"model": "chat", "messages": [SYSTEM, _user(LONG)]}).encode()
    assert AFFINITY(raw[:2048], BASE, 2048) == AFFINITY(raw, BASE) == (b"Be brief.", b"x" * LENGTH)
    assert AFFINITY(raw[:500], BASE, 500) == (None, None)


@given(
    tools=_TOOLS,
    user=_ODD.filter(bool),
    system=_ODD,
    indent=st.sampled_from([None, 1]),
    order=st.permutations(range(4)),
)
@settings(deadline=None)
def test_the_texts_and_the_model_are_found_in_any_order_beside_tools(
    tools: list[object], user: str, system: str, indent: int | None, order: list[int]
) -> None:
    messages = [{"role": "system", "content": system}, _user([IMAGE, {"type": "text", "text": user}])]
    members = [("tools", tools), ("messages", messages), ("model", "m"), ("text", {"messages": messages[1:]})]
    raw = json.dumps(dict(members[place] for place in order), indent=indent).encode()
    expected = tuple(b"m\n" + json.dumps(text)[1:-1].encode()[:LENGTH] for text in (system, user))
    assert AFFINITY(raw, BASE) == expected
