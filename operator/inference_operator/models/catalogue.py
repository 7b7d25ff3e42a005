"""The catalogue: public models whose `config.json` and size are stored with the operator.

The data is written by `python -m bench.catalogue` from configs in public repositories; each entry names repository,
commit and path. An entry has the same form as an inspection result; the same code reads both.
"""

import json
from functools import cache
from importlib.resources import files

from inference_operator.models.entry import Entry, entry_of

FILE = "catalogue.json"


def entry(name: str) -> Entry | None:
    """The entry of a hub repository, or None; names are case-insensitive, as on the hub.

    Examples:
        >>> entry("qwen/qwen3-8b").config["num_hidden_layers"]
        36
        >>> entry("nobody/nothing") is None
        True
    """
    return _entries().get(name.lower())


def names() -> list[str]:
    """The names of all models in the catalogue."""
    return [one.name for one in _entries().values()]


@cache
def _entries() -> dict[str, Entry]:
    document = json.loads((files(__package__) / FILE).read_text(encoding="utf-8"))
    return {one["model"].lower(): entry_of(one) for one in document}
