# noqa: INP001 (a script for the image, no module of this package)
"""Runs inside the engine's image: finds out how vLLM and Transformers run each architecture of a text model.

python architectures.py QUESTION.json RESULT.json

For each architecture it makes a small model with random weights, and compares the answers of Transformers' continuous
batching with those of `generate`. Each one has a process of its own, since some never answer.
"""

# Transformers and vLLM are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found"

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "CRITICAL"}

import torch
import transformers
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
)
from vllm.model_executor.models import registry

SECONDS = 120
PROMPTS = [[5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15, 16, 17]]
ANSWER = GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=-1, pad_token_id=0)
BATCHING = ContinuousBatchingConfig(num_blocks=8, max_batch_tokens=64, page_size=32, auto_switch_to_flash=False)
MOST_PARAMETERS = 40_000_000
SIZES = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "embedding_size", "word_embed_proj_dim"), 64),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "decoder_ffn_dim"), 96),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("head_dim", "v_head_dim", "kv_lora_rank", "q_lora_rank", "hidden_size_per_layer_input"), 16),
    **dict.fromkeys(("rotary_dim", "qk_rope_head_dim", "qk_nope_head_dim"), 8),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace", "bos_token_id"), 1),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok", "eos_token_id"), 2),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), 200),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 512),
    "moe_intermediate_size": 32,
    "pad_token_id": 0,
    "sliding_window": 32,
}
"""Fields of configurations, for a small model."""


def small(model_class: Any) -> Any:  # noqa: ANN401 - types of the library
    """A small model of a class with random weights."""
    usual = model_class.config_class()
    fields: dict[str, object] = {
        name: size for name, size in SIZES.items() if getattr(usual, name, None) is not None or name == "pad_token_id"
    }
    if kinds := list(getattr(usual, "layer_types", None) or ()):
        fields["layer_types"] = [kinds[0], kinds[-1]]
    torch.manual_seed(0)
    return model_class(model_class.config_class(**fields)).eval().float()


def is_batched(model_class: Any) -> bool:  # noqa: ANN401
    """Whether continuous batching answers as `generate` does."""
    model = small(model_class)
    if sum(weights.numel() for weights in model.parameters()) > MOST_PARAMETERS:
        return False
    expected = [
        model.generate(torch.tensor([one]), generation_config=ANSWER)[0, len(one) :].tolist() for one in PROMPTS
    ]
    found = model.generate_batch(
        PROMPTS, generation_config=ANSWER, continuous_batching_config=BATCHING, progress_bar=False
    )
    return sorted(one.generated_tokens for one in found.values()) == sorted(expected)


def tried(model_class: Any) -> bool:  # noqa: ANN401
    """The same, found out in a process of its own; False if it fails or takes too long."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if is_batched(model_class) else 1)
        except BaseException:  # noqa: BLE001 - whatever it is, the answer is no
            os._exit(1)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


def main() -> None:
    """Write the two tables: of vLLM, and of Transformers."""
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    others = {*registry._TRANSFORMERS_BACKEND_MODELS, *registry._SPECULATIVE_DECODING_MODELS}  # noqa: SLF001
    vllm = dict.fromkeys(sorted(set(registry._VLLM_MODELS) - others), "native")  # noqa: SLF001
    more_than_text = {
        *MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES.values(),
        *MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.values(),
    }
    own: dict[str, str] = {}
    for kind, name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items():
        model_class = getattr(transformers, name if isinstance(name, str) else name[0], None)
        is_text = kind not in MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES and name not in more_than_text
        if model_class is None or not is_text:
            continue
        called = model_class.__name__
        own[called] = "batched" if tried(model_class) else "single"
        compatible = model_class.is_backend_compatible() or model_class._can_set_attn_implementation()  # noqa: SLF001
        if compatible and own[called] == "batched":
            vllm.setdefault(called, "transformers")
    result = {"vllm": dict(sorted(vllm.items())), "transformers": dict(sorted(own.items()))}
    Path(sys.argv[2]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
