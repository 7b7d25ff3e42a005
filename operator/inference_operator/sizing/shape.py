"""One way to run a model, before anybody knows whether it fits."""

from dataclasses import dataclass

from inference_operator.models.facts import Quantization

KV_BYTES = {
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8"), 1),
    **dict.fromkeys(("float16", "half", "bfloat16"), 2),
    **dict.fromkeys(("float32", "float"), 4),
}
"""Bytes of an element of the KV cache by the engine's word for its type."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How an engine would be started; None: the engine's default."""

    tensor: int = 1
    pipeline: int = 1
    context: int | None = None
    """Longest sequence in tokens; None: the model's own."""
    utilization: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_dtype: str = "auto"
    element_bytes: int | None = None
    """Bytes of an element that is not quantised; None: the checkpoint's."""
    quantization: Quantization | None = None
    """Of weights that the engine itself quantises while it loads; None: as in the checkpoint."""
    eager: bool = False
    """No CUDA graphs."""
    cpu_offload_gib: float = 0.0
    """Weights of each GPU that stay in the host's memory."""
    extra_gib: float = 0.0
    """A draft model and adapters, on each GPU."""
    speculative_tokens: int = 0
