"""Write the catalogue of models from collected public configs.

    python -m bench.catalogue COLLECTED.json > operator/inference_operator/models/catalogue.json

`COLLECTED.json` is a list of objects: `model` (its name on the hub), `source` (`owner/repository@commit:path` of the
public config), the fields of that config, and, where it is published, `safetensors_gib` (the files that the index
names) or `model_file_size_gib` (all files) with `safetensors_source` or `model_file_size_source`. Only fields that the
operator reads are kept. Fields that a config lacks are filled from other configs of the same architecture and shape if
all of them agree; `source` says so. A model without facts is left out and named on stderr.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from inference_operator.manifest import Manifest
from inference_operator.models.checkpoint import Weights
from inference_operator.models.config import NotUnderstood
from inference_operator.models.model import model_facts
from inference_operator.units import GIB

FIELDS = (
    "architectures",
    "model_type",
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "v_head_dim",
    "intermediate_size",
    "intermediate_size_mlp",
    "vocab_size",
    "max_position_embeddings",
    "rope_scaling",
    "tie_word_embeddings",
    "dtype",
    "torch_dtype",
    "sliding_window",
    "use_sliding_window",
    "sliding_window_pattern",
    "layer_types",
    "attention_chunk_size",
    "global_head_dim",
    "num_global_key_value_heads",
    "num_kv_shared_layers",
    "kv_lora_rank",
    "q_lora_rank",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "index_head_dim",
    "compress_ratios",
    "n_routed_experts",
    "num_experts",
    "num_local_experts",
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_intermediate_size",
    "moe_latent_size",
    "n_shared_experts",
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "first_k_dense_replace",
    "decoder_sparse_step",
    "interleave_moe_layer_step",
    "full_attention_interval",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
    "hybrid_override_pattern",
    "mamba_num_heads",
    "mamba_head_dim",
    "ssm_state_size",
    "n_groups",
    "quantization_config",
    "vision_config",
)
GEMMA = {"google/gemma-2": "gemma2", "google/gemma-3": "gemma3", "google/gemma-4": "gemma4", "google/gemma-": "gemma"}
"""Model types of configs that were collected from another framework's presets, which do not name them."""
SEES = ("google/gemma-3-4b", "google/gemma-3-12b", "google/gemma-3-27b", "google/gemma-4")
"""Those of them with a vision encoder."""
LATENT = {"nvidia/NVIDIA-Nemotron-3-Super": {"moe_latent_size": 1024, "moe_shared_expert_intermediate_size": 5376}}
"""Widths that the collected configs leave out (NVIDIA-NeMo/Megatron-Bridge, tests of `nemotronh`, Super); with them the
matrices have the parameters of its name, 120 G, and without them 457 G."""


SHAPE = ("architectures", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
"""Configs have the same shape if these fields are equal, as far as both have them."""
NAMED_BY_ALL = ("architectures", "num_hidden_layers", "num_key_value_heads")
OWN = ("rope_scaling", "quantization_config", "max_position_embeddings", "dtype", "torch_dtype")
"""Never taken from another config."""


def fields(collected: Manifest, everything: Sequence[Manifest]) -> tuple[Manifest, str]:
    """The fields of the config, completed from configs of the same shape, and a note of the completed fields."""
    own = {name: collected[name] for name in FIELDS if collected.get(name) is not None}
    if not collected.get("missing_fields") or not all(own.get(name) for name in NAMED_BY_ALL):
        return own, ""
    alike = [one for one in everything if one is not collected and _alike(own, one)]
    filled = {}
    for name in FIELDS:
        values = [one[name] for one in alike if one.get(name) is not None]
        if name not in own and name not in OWN and values and all(value == values[0] for value in values):
            filled[name] = values[0]
    return {**filled, **own}, f" (what it leaves out as in others of its shape: {', '.join(filled)})" if filled else ""


def _alike(own: Manifest, other: Manifest) -> bool:
    if not all(other.get(name) for name in NAMED_BY_ALL):
        return False
    both = (name for name in SHAPE if own.get(name) is not None and other.get(name) is not None)
    return all(own[name] == other[name] for name in both)


def entry(collected: Manifest, everything: Sequence[Manifest]) -> Manifest | None:
    """One model with the fields that the operator reads; None if its facts cannot be computed."""
    given, filled = fields(collected, everything)
    config = {name: _compact(value) for name, value in given.items() if name != "rope_scaling" or _stretches(value)}
    for name, widths in LATENT.items():
        config |= widths if collected["model"].startswith(name) else {}
    if "model_type" not in config:
        family = next((kind for name, kind in GEMMA.items() if collected["model"].startswith(name)), None)
        config |= {"model_type": family} if family else {}
    if "layer_pattern" in collected:
        config["full_attention_interval"] = config.get("full_attention_interval", 4)
    if (
        collected.get("_multimodal_text_config") or collected["model"].startswith(SEES)
    ) and "vision_config" not in config:
        config["vision_config"] = {}
    weights = _weights(collected)
    known = Weights(round(weights["gib"] * GIB), weights["source"], exact=weights["exact"]) if weights else None
    facts = model_facts(config, known)
    if isinstance(facts, NotUnderstood):
        print(f"{collected['model']}: left out: {facts.message}", file=sys.stderr)
        return None
    return {"model": collected["model"], "source": collected["source"] + filled, "config": config, "weights": weights}


def _compact(value: object) -> object:
    """A list of layers as counts, without its other keys."""
    if isinstance(value, dict) and "counts" in value:
        return {"counts": value["counts"]}
    return value


def _stretches(rope: object) -> bool:
    return isinstance(rope, dict) and "yarn" in (rope.get("type"), rope.get("rope_type"))


def _weights(collected: Manifest) -> Manifest | None:
    for name, exact in (("safetensors", True), ("model_file_size", False)):
        if size := collected.get(f"{name}_gib"):
            return {"gib": size, "source": collected[f"{name}_source"], "exact": exact}
    return None


def main(arguments: Sequence[str]) -> int:
    """Print the catalogue, one model a line."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    collected = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    found = sorted(
        (one for one in (entry(each, collected) for each in collected) if one),
        key=lambda one: str(one["model"]).lower(),
    )
    lines = [json.dumps(one, separators=(",", ":")) for one in found]
    print("[\n" + ",\n".join(lines) + "\n]")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
