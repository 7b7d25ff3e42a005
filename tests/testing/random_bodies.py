"""Random bodies of requests: JSON of all kinds, and bytes that are none."""

import json
import random
from typing import Any

NAMES = ("model", "prompt", "messages", "kv_transfer_params", "vllm_xargs", "n", "stream", "a", "", "ü", "cache_salt")
LEAVES = (None, True, False, 0, -1, 7, 1.5, 1e400, 10**30, "", "x", "kv_transfer_params", "ü€😀", "\ud800", "a" * 300)
TEXTS = (b"", b"null", b"[]", b"{", b'{"a":}', b"\xff\xfe", b"\x00", b"NaN", b'{"a":1}x', b"9" * 5000, b'{"a":"\x01"}')
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-32-be")
_DEEPEST, _MOST = 3, 4


def random_body(rng: random.Random) -> bytes:
    """A body of a POST, as a client may send it."""
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(TEXTS)
    text = _text(rng, _object(rng, 0))
    if kind < 0.2:
        return text.encode(rng.choice(ENCODINGS), "surrogatepass")
    raw = text.encode("utf-8", "surrogatepass")
    if kind < 0.35:
        at = rng.randrange(len(raw))
        return raw[:at] + bytes([rng.randrange(256)]) + raw[at + rng.randrange(3) :]
    return raw


def _text(rng: random.Random, value: dict[str, Any]) -> str:
    """JSON with white space, escapes, and sometimes a name twice."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, None, 1)))
    if rng.random() < 0.1:
        text = text.replace("kv_transfer_params", "kv_transfer_param\\u0073")
    if rng.random() < 0.1 and len(value) > 1:
        text = text[:-1] + "," + json.dumps({rng.choice(NAMES): rng.choice(LEAVES)})[1:]
    return rng.choice(("", " ", "\r\n\t")) + text + rng.choice(("", " ", "\n"))


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    return {rng.choice(NAMES): _value(rng, depth + 1) for _ in range(rng.randrange(_MOST + 1))}


def _value(rng: random.Random, depth: int) -> Any:  # noqa: ANN401 - any JSON
    kind = rng.random()
    if depth < _DEEPEST and kind < 0.25:
        return _object(rng, depth)
    if depth < _DEEPEST and kind < 0.4:
        return [_value(rng, depth + 1) for _ in range(rng.randrange(_MOST))]
    return rng.choice(LEAVES)
