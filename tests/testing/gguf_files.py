"""Small GGUF files, as the library of llama.cpp's project writes them."""

from pathlib import Path

import gguf
import numpy as np

SIZES = {
    "add_context_length": 4096,
    "add_embedding_length": 64,
    "add_block_count": 2,
    "add_feed_forward_length": 128,
    "add_head_count": 4,
    "add_head_count_kv": 2,
}
"""Methods of the library's writer, with the numbers of a small model."""


def write_model(
    file: Path, architecture: str = "llama", *, tokens: int = 300, quantized: bool = True, **sizes: object
) -> Path:
    """Write a model with one matrix and an output layer; returns the file.

    Args:
        file: its path.
        architecture: as GGUF names it.
        tokens: number of tokens of its vocabulary.
        quantized: whether the tensors have 8 bits.
        sizes: other numbers by the writer's methods; None for those that the file does not state.
    """
    writer = gguf.GGUFWriter(file, architecture)
    for method, size in {**SIZES, **sizes}.items():
        if size is not None:
            getattr(writer, method)(*size if isinstance(size, tuple) else (size,))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"token {number}" for number in range(tokens)])
    writer.add_chat_template("{{ messages }}")
    kind = gguf.GGMLQuantizationType.Q8_0 if quantized else gguf.GGMLQuantizationType.BF16
    for name in ("blk.0.attn_q.weight", "output.weight"):
        tensor = gguf.quants.quantize(np.ones((64, 64), dtype=np.float32), kind)
        writer.add_tensor(name, tensor, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
