"""Write the values that transformers fills in where a `config.json` leaves a field out, for each `model_type`.

    uv run --no-project --with transformers==5.19.0 python bench/transformers_defaults.py \
        > operator/inference_operator/models/transformers_defaults.json

The release is the one that vLLM's image installs (`images/engine-cpu/requirements.txt`). Only fields of a model's
shape and context are written. A type with several parts names the type of its text part. The script imports nothing
of this project, so that it runs with transformers alone.
"""

import dataclasses
import inspect
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"  # some classes would ask the hub for a part's config

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

FIELDS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "vocab_size",
    "hidden_size",
    "n_embd",
    "d_model",
    "intermediate_size",
    "ffn_dim",
    "d_ff",
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_key_value_heads",
    "num_kv_heads",
    "head_dim",
    "tie_word_embeddings",
)
SIZES = ("hidden_size", "n_embd", "d_model")


def defaults(config_class: type) -> dict[str, object]:
    """The fields that this class fills in; those that it computes from others are left out."""
    if dataclasses.is_dataclass(config_class):
        stated = {each.name: each.default for each in dataclasses.fields(config_class)}
    else:
        stated = {each.name: each.default for each in inspect.signature(config_class).parameters.values()}
    return {name: stated[name] for name in FIELDS if isinstance(stated.get(name), int | float)}


def text_type(config_class: type) -> str:
    """The `model_type` of the text part; empty where the class has no parts."""
    try:
        config = config_class()
        text = config.get_text_config(decoder=True)
    except Exception:  # noqa: BLE001 - a class that cannot be made without arguments has no defaults either
        return ""
    return "" if text is config else str(text.model_type)


def types_with_defaults() -> dict[str, dict[str, object]]:
    """The defaults of each `model_type` that has some."""
    types: dict[str, dict[str, object]] = {}
    for name in sorted(CONFIG_MAPPING_NAMES):
        try:
            config_class = CONFIG_MAPPING[name]
        except (ImportError, KeyError, AttributeError):
            continue
        if text := text_type(config_class):
            types[name] = {"text": text}
        elif any(size in (found := defaults(config_class)) for size in SIZES):
            types[name] = found
    return types


def main() -> int:
    """Print the table, one type a line."""
    types = types_with_defaults()
    lines = [f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}" for name, fields in types.items()]
    print(f'{{"transformers":{json.dumps(transformers.__version__)},"types":{{\n' + ",\n".join(lines) + "\n}}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
