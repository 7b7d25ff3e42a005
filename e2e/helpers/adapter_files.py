"""LoRA adapters for the tiny model, written by hand: their random weights change each answer."""

import json
import random
import struct
from pathlib import Path

from e2e.model.tiny_llama import model_folder
from inference_operator.models.adapter import CONFIG, WEIGHTS

STRENGTH = 0.5
"""Half of the range of the weights: enough to change every answer of the tiny model."""


def write_adapter(folder: Path, seed: int, *, rank: int = 8, base: str = "", **config: object) -> None:
    """Write an adapter of the attention's queries and values; another seed gives other answers.

    Args:
        folder: where; made if it is missing.
        seed: of the random weights.
        rank: of all matrices.
        base: the model that the adapter says it was trained for.
        config: more fields of its `adapter_config.json`.
    """
    model = json.loads((model_folder() / "config.json").read_text())
    hidden, head = model["hidden_size"], model["head_dim"]
    outputs = {"q_proj": head * model["num_attention_heads"], "v_proj": head * model["num_key_value_heads"]}
    tensors: dict[str, tuple[int, int]] = {}
    for layer in range(model["num_hidden_layers"]):
        for module, size in outputs.items():
            prefix = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            tensors[f"{prefix}.lora_A.weight"] = (rank, hidden)
            tensors[f"{prefix}.lora_B.weight"] = (size, rank)
    written = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": rank,
        "target_modules": sorted(outputs),
        "base_model_name_or_path": base,
        **config,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps(written))
    (folder / WEIGHTS).write_bytes(_safetensors(tensors, random.Random(seed)))  # noqa: S311 - the same ones each time


def _safetensors(tensors: dict[str, tuple[int, int]], numbers: random.Random) -> bytes:
    """The content of a safetensors file with random numbers of 32 bits."""
    header: dict[str, object] = {}
    parts: list[bytes] = []
    offset = 0
    for name, (rows, columns) in tensors.items():
        count = rows * columns
        parts.append(struct.pack(f"<{count}f", *(numbers.uniform(-STRENGTH, STRENGTH) for _ in range(count))))
        header[name] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [offset, offset + 4 * count]}
        offset += 4 * count
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(parts)
