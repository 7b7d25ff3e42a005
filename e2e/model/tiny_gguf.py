"""Writes a tiny Llama in the format of llama.cpp.

llama.cpp rotates pairs of neighbours where transformers rotates the halves of a head, so that the rows of queries and
keys are in another order (llama.cpp, `conversion/llama.py`, `permute`).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Array = NDArray[Any]
_OUTER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(model: Path, file: Path, *, quantized: bool = False) -> None:
    """Write a Llama with a byte-level tokenizer as one GGUF file.

    Args:
        model: its folder in the format of transformers.
        file: path of the new file.
        quantized: whether its matrices get 8 bits (`Q8_0`).
    """
    config = json.loads((model / "config.json").read_text())
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name(model.name)
    _add_sizes(writer, config)
    _add_tokenizer(writer, json.loads((model / "tokenizer.json").read_text()), config)
    template = model / "chat_template.jinja"
    if template.exists():
        writer.add_chat_template(template.read_text())
    kind = gguf.GGMLQuantizationType.Q8_0 if quantized else gguf.GGMLQuantizationType.F32
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if quantized else gguf.LlamaFileType.ALL_F32)
    for name, tensor in _tensors(load_file(model / "model.safetensors"), config):
        stored = kind if tensor.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(tensor, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file.chmod(0o644)


def _add_sizes(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    special = {one["id"] for one in tokenizer["added_tokens"]}
    words = sorted(tokenizer["model"]["vocab"].items(), key=lambda pair: pair[1])
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([text for text, _ in words])
    writer.add_token_types(
        [gguf.TokenType.CONTROL if number in special else gguf.TokenType.NORMAL for _, number in words]
    )
    writer.add_token_merges(merges)
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(value=False)


def _tensors(state: Mapping[str, Array], config: Mapping[str, Any]) -> Sequence[tuple[str, Array]]:
    heads = {"self_attn.q_proj": config["num_attention_heads"], "self_attn.k_proj": config["num_key_value_heads"]}
    named = [(there, state[here]) for here, there in _OUTER.items()]
    for number in range(config["num_hidden_layers"]):
        for here, there in _LAYER.items():
            tensor = state[f"model.layers.{number}.{here}.weight"]
            named.append((f"blk.{number}.{there}.weight", _permuted(tensor, heads[here]) if here in heads else tensor))
    return [(name, tensor.astype(np.float32)) for name, tensor in named]


def _permuted(tensor: Array, heads: int) -> Array:
    """The rows of a head, so that the halves become pairs of neighbours."""
    rows, columns = tensor.shape
    halves = tensor.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))
