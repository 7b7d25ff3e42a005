"""The text of a program that is written as several modules."""

import ast
from importlib.resources import files

_PARTS = ("options", "peers", "engine_api", "http_page", "processes", "group_state", "member_program")
"""Each one imports only those before it."""
_FIRST = "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(0))"
"""Until the program handles SIGTERM itself. The first process of a container does not hear it without a handler."""


def member_source() -> str:
    """The program of each member, in one piece: without the imports of its parts and without docstrings."""
    parts = (files(__package__).joinpath(f"{part}.py").read_text(encoding="utf-8") for part in _PARTS)
    return "\n".join((_FIRST, *map(_without, parts)))


def _without(text: str) -> str:
    lines: list[str] = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        own = isinstance(node, ast.ImportFrom) and (node.module or "").startswith(__package__)
        said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and (own or said):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            lines[first:last] = [""] * (last - first)
    return "\n".join(line for line in lines if line.strip())
