"""Bodies of requests to the OpenAI API as long as a search reads: those that cost it most, and honest ones."""

import json
from collections.abc import Mapping

from inference_operator.router.long_bodies import SEARCHED_BYTES

_LONG = b'"' + rb"\"a" * 2_700 + b'",'
"""A string with escaped quotes, about as long as what the search reads at a time."""

_FORMS: Mapping[str, tuple[bytes, bytes]] = {
    "brackets": (b'{"a":', b"["),
    "braces": (b"", b'{"a":'),
    "pairs of brackets": (b'{"a":[', b"[],"),
    "empty strings": (b'{"a":[', b'"",'),
    "empty strings instead of keys": (b"{", b'"",'),
    "keys": (b"{", b'"":0,'),
    "keys of a message": (b'{"messages":[{', b'"":0,'),
    "keys with arrays": (b"{", b'"a":[0],'),
    "escaped quotes": (b'{"a":"', rb"\""),
    "escaped quotes of a user": (b'{"messages":[{"role":"user","content":"', rb"\""),
    "escaped quotes, each in a string": (b'{"a":[', rb'"\"",'),
    "escaped backslashes": (b'{"a":"', rb"\\"),
    "an odd number of backslashes": (b'{"a":"x', rb"\\"),
    "strings with escaped quotes": (b'{"a":[', _LONG),
    "messages": (b'{"messages":[', b"{},"),
    "messages of nobody": (b'{"messages":[', b'{"role":"a","content":"b"},'),
    "messages with objects": (b'{"messages":[', b'{"a":{"b":0}},'),
    "escapes instead of members": (b'{"messages":[{"content":[', b'{\\\\"\\"",\\'),
    "parts": (b'{"messages":[{"content":[', b'{"text":1},'),
    "tokens": (b'{"prompt":[', b"1,"),
    "tokens as input": (b'{"input":[', b"1,"),
    "prompts of one token": (b'{"input":[', b"[1],"),
    "texts as input": (b'{"input":[', b'"a",'),
    "arrays and texts as input": (b'{"input":[', b'[],"",'),
    "digits": (b'{"a":', b"1"),
    "blanks": (b'{"a":', b" "),
    "commas": (b'{"messages":[', b","),
    "closing brackets": (b'{"messages":[', b"}"),
    "control characters": (b'{"a":[', b"\1"),
}


def hostile_bodies() -> dict[str, bytes]:
    """Bodies of SEARCHED_BYTES by name. A quote ends each, so that no search for one fails at once."""
    return {name: _filled(*form) for name, form in _FORMS.items()}


def _filled(start: bytes, piece: bytes) -> bytes:
    return (start + piece * (SEARCHED_BYTES // len(piece)))[: SEARCHED_BYTES - 1] + b'"'


_TOOL = {
    "type": "function",
    "function": {
        "name": "find_orders",
        "description": 'Finds orders [at most 100] by a "query" such as `status = {open}`.\nReturns rows.',
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for; brackets ] are allowed."},
                "messages": {"type": "array", "items": {"type": "object", "properties": {"role": {"enum": ["user"]}}}},
            },
            "required": ["query"],
        },
    },
}
_MESSAGES: list[object] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
_TURN: dict[str, object] = {
    "role": "assistant",
    "content": 'I "looked" it up.\n' * 10,
    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"query": "[x"}'}}],
}


def honest_bodies() -> dict[str, bytes]:
    """Bodies of almost SEARCHED_BYTES by name; in each, the system prompt is `Be brief.` and the model `chat`.

    The user says `Hi`, or what begins so.
    """
    tools = [_TOOL] * (SEARCHED_BYTES // len(json.dumps(_TOOL)) - 4)
    turns = [_TURN] * (SEARCHED_BYTES // len(json.dumps(_TURN)) - 4)
    code = "Hi" + 'print("Hello [world")\n' * (SEARCHED_BYTES // 26)
    long = [_MESSAGES[0], {"role": "user", "content": code}]
    bodies: dict[str, object] = {
        "tools before messages": {"model": "chat", "tools": tools, "messages": _MESSAGES},
        "tools behind messages": {"messages": _MESSAGES, "tools": tools, "model": "chat"},
        "many turns": {"messages": _MESSAGES + turns, "model": "chat"},
        "code": {"messages": long, "model": "chat"},
    }
    return {name: json.dumps(body).encode() for name, body in bodies.items()}
