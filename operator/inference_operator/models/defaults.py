"""The values that transformers fills in where a `config.json` leaves a field out.

Configs of a model's publisher leave out what equals the default of its `model_type`: that of Gemma 3 states neither its
attention heads nor its context. The table is written by `bench/transformers_defaults.py`.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

FILE = "transformers_defaults.json"
Value = int | float | bool


def defaults_of(model_type: str) -> Mapping[str, Value]:
    """The default of each field of this `model_type`; those of the text part for a model of several parts.

    Examples:
        >>> defaults_of("gemma3")["max_position_embeddings"], defaults_of("gemma3_text")["num_attention_heads"]
        (131072, 8)
        >>> defaults_of("unheard-of")
        {}
    """
    types = _types()
    found = types.get(model_type, {})
    part = found.get("text")
    return types.get(part, {}) if isinstance(part, str) else found  # type: ignore[return-value]  # as the script writes


@cache
def _types() -> Mapping[str, Mapping[str, Value | str]]:
    document = json.loads((files(__package__) / FILE).read_text(encoding="utf-8"))
    types: Mapping[str, Mapping[str, Value | str]] = document["types"]
    return types
