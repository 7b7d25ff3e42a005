"""Configs of public models from many sources, for tests and benches.

Many are aliases, or come from training scripts and other frameworks: the shapes are right, the contexts may not
be. So the operator's catalogue has only those that are a copy of the repository's own file.
"""

import json
from functools import cache
from pathlib import Path

from inference_operator.models.entry import Entry, entry_of

FILE = Path(__file__).with_name("collected_models.json")


def entry(name: str) -> Entry | None:
    """The collected config of a hub repository, or None."""
    return _entries().get(name.lower())


def names() -> list[str]:
    """The names of all collected models."""
    return [one.name for one in _entries().values()]


@cache
def _entries() -> dict[str, Entry]:
    return {one["model"].lower(): entry_of(one) for one in json.loads(FILE.read_text(encoding="utf-8"))}
