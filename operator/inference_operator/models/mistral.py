"""Mistral's own `params.json` as the fields of a `config.json`, as vLLM maps them.

Source: vLLM 0.32.0, `transformers_utils/configs/mistral.py`. vLLM reads it where files `consolidated*.safetensors` are
(`transformers_utils/config.py`, `get_config`).
"""

from inference_operator.manifest import Manifest
from inference_operator.models.config import UnreadableError

PARAMS, WEIGHTS = "params.json", "consolidated"
"""Name of the file, and the beginning of the names of its weights."""
USUAL_CONTEXT = 128_000
_FIELDS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "hidden_dim": "intermediate_size",
    "tied_embeddings": "tie_word_embeddings",
}
_KEPT = (
    *("head_dim", "vocab_size", "max_position_embeddings", "rope_theta", "dtype", "sliding_window"),
    *("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"),
)
_OF_EXPERTS = {
    "num_experts": "n_routed_experts",
    "num_experts_per_tok": "num_experts_per_tok",
    "expert_hidden_dim": "moe_intermediate_size",
    "num_shared_experts": "n_shared_experts",
    "first_k_dense_replace": "first_k_dense_replace",
    "route_every_n": "moe_layer_freq",
}


def transformers_config(params: object) -> Manifest:
    """The fields of a `config.json` that sizing reads.

    Examples:
        >>> config = transformers_config({"dim": 64, "n_layers": 2, "n_heads": 4, "moe": {"num_experts": 8}})
        >>> config["architectures"], config["hidden_size"], config["n_routed_experts"], config["tie_word_embeddings"]
        (['MixtralForCausalLM'], 64, 8, False)
    """
    if not isinstance(params, dict):
        raise UnreadableError(PARAMS, "is no JSON object")
    fields = {name: params[name] for name in _KEPT if name in params}
    fields |= {new: params[old] for old, new in _FIELDS.items() if old in params}
    fields = {"max_position_embeddings": USUAL_CONTEXT, "tie_word_embeddings": False, **fields}
    moe = params.get("moe")
    if isinstance(moe, dict):
        fields |= {new: moe[old] for old, new in _OF_EXPERTS.items() if old in moe}
    fields |= _windows(fields.pop("sliding_window", None), fields.get("num_hidden_layers"))
    if isinstance(quantization := params.get("quantization"), dict):
        fields["quantization_config"] = _quantization(quantization)
    if isinstance(yarn := params.get("yarn"), dict):
        fields["rope_parameters"] = {"rope_type": "yarn", "factor": yarn.get("factor", 1)}
    return _of_kind(params, {"architectures": [_architecture(moe)], "model_type": "transformer", **fields})


def _architecture(moe: object) -> str:
    if not isinstance(moe, dict):
        return "MistralForCausalLM"
    return "MistralLarge3ForCausalLM" if moe.get("num_shared_experts") else "MixtralForCausalLM"


def _of_kind(params: Manifest, text: Manifest) -> Manifest:
    section = params.get("multimodal")
    parts = section if isinstance(section, dict) else {}
    vision = parts.get("vision_encoder_args") or params.get("vision_encoder")
    if isinstance(vision, dict):
        return {"architectures": ["PixtralForConditionalGeneration"], "text_config": text, "vision_config": vision}
    if isinstance(sound := parts.get("whisper_model_args"), dict):
        encoder = sound.get("encoder_args")
        audio = {"d_model": encoder.get("dim")} if isinstance(encoder, dict) else {}
        return {"architectures": ["VoxtralForConditionalGeneration"], "text_config": text, "audio_config": audio}
    return text


def _windows(window: object, layers: object) -> Manifest:
    """One window for all layers, or a list of windows that repeats over the layers."""
    if isinstance(window, int) and isinstance(layers, int):
        return {"sliding_window": window, "layer_types": {"counts": {"sliding_attention": layers}}}
    if not isinstance(window, list) or not window or not isinstance(layers, int):
        return {}
    size = next((each for each in window if isinstance(each, int)), None)
    windowed = layers // len(window) * sum(each is not None for each in window)
    counts = {"sliding_attention": windowed, "full_attention": layers - windowed}
    return {"sliding_window": size, "layer_types": {"counts": counts}}


def _quantization(stored: Manifest) -> Manifest:
    if stored.get("qformat_weight") == "fp8_e4m3":
        return {"quant_method": "fp8"}
    method = str(stored.get("quant_method", "")).lower().replace("_", "-")
    return {**stored, "quant_method": method}
