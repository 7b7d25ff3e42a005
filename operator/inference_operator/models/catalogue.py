"""Public models whose `config.json` and size are known without asking the hub.

The data is written by `python -m bench.catalogue` from configs in public repositories; each entry names repository,
commit and path. An entry is what a hub would answer, so that a model from here and one that was inspected are read
by the same code.
"""

import json
from functools import cache
from importlib.resources import files

from inference_operator.models.entry import Entry, entry_of

FILE = "catalogue.json"


def entry(name: str) -> Entry | None:
    """What is known of a repository of the hub; names are compared without regard to case, as the hub does.

    Examples:
        >>> entry("qwen/qwen3-8b").config["num_hidden_layers"]
        36
        >>> entry("nobody/nothing") is None
        True
    """
    return _entries().get(name.lower())


def names() -> list[str]:
    """All models of the catalogue."""
    return [one.name for one in _entries().values()]


@cache
def _entries() -> dict[str, Entry]:
    document = json.loads((files(__package__) / FILE).read_text(encoding="utf-8"))
    return {one["model"].lower(): entry_of(one) for one in document}
