"""Bodies that name a model in odd ways, and the model that an engine takes from one."""

import json
import random
from collections.abc import Iterator

_KEYS = ('"model"',) * 4 + ('"Model"', '"models"', '"a"', '"prompt"', '""') * 2 + (r'"mod\u0065l"', r'"\"model"')
_VALUES = (
    '"chat"', '"sql"', '"chat"', '"sql"', r'"org\/sql"', r'"ch\u0061t"', '"model"', r'"\\\"model\":"', "null", "7",
    "NaN", "true", "[]", "{}", '["model", {"model": "sql"}]', '{"model": "sql", "x": "}"}', '"]}{["',
    "[" * 70 + "]" * 70, "[" * 30 + "]" * 30,
)  # fmt: skip
_BLANKS = ("", "", "", " ", "\n\t", "\r\n ")
_PIECES = (
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\x00",
    "\ufeff",
    "é",
    '"model":"sql"',
    "u0065",
    "\x0b",
    "\xa0",
    "\u2028",
)
_ENCODINGS = ("utf-8",) * 12 + ("utf-8-sig", "utf-16", "utf-16-le", "utf-32-be", "latin-1")


def odd_bodies(seed: int, count: int) -> Iterator[bytes]:
    """Objects of members that each alone would be harmless or not, half of them damaged, in any encoding."""
    chance = random.Random(seed)  # noqa: S311 - no secret

    def blank() -> str:
        return chance.choice(_BLANKS)

    for _ in range(count):
        members = [
            f"{blank()}{chance.choice(_KEYS)}{blank()}:{blank()}{chance.choice(_VALUES)}{blank()}"
            for _ in range(chance.randrange(5))
        ]
        text = f"{blank()}{{{','.join(members)}}}{blank()}"
        for _ in range(chance.choice((0, 0, 0, 1, 3))):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(_PIECES) + text[at + chance.randrange(3) :]
        yield text.encode(chance.choice(_ENCODINGS), errors="replace")


def engines_model(body: bytes) -> object:
    """The model that an engine takes: None without one. A ValueError where it refuses the body.

    Engines read bodies with `json.loads`, and fields of objects only (FastAPI, routing.py, `get_request_handler`).
    """
    try:
        parsed = json.loads(body)
    except RecursionError as error:
        raise ValueError from error
    if not isinstance(parsed, dict):
        raise ValueError  # noqa: TRY004 - as what is no JSON
    return parsed.get("model")
