"""One way to run a model, before anybody knows whether it fits."""

from dataclasses import dataclass

from inference_operator.models.facts import ModelFacts, Quantization

KV_BYTES = {
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8"), 1),
    **dict.fromkeys(("float16", "half", "bfloat16"), 2),
    **dict.fromkeys(("float32", "float"), 4),
}
"""Bytes of an element of the KV cache by the engine's word for its type."""


@dataclass(frozen=True, slots=True)
class Adapters:
    """Low-rank adapters (LoRA) for which an engine keeps room from its start, whatever is loaded into it."""

    rank: int
    """Of each adapter, at most."""
    active: int = 1
    """Adapters that may be used at once."""
    kept: int = 1
    """Adapters that each rank keeps in the host's memory."""
    divided: bool = False
    """Whether tensor ranks divide both matrices of an adapter, not one of them."""
    element_bytes: int | None = None
    """None: as the model's own."""
    graph_sets: int = 2
    """How often CUDA graphs are captured: without adapters, and with them."""
    tower: bool = False
    """Whether there is room for adapters of a vision tower too."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """Tokens that are guessed, and then checked by the model in one step."""

    tokens: int
    """Guessed at once."""
    own_layer: bool = False
    """Whether a layer that comes with the model guesses (multi-token prediction)."""
    draft: str = ""
    """The repository or path of a draft model; empty where there is none."""
    draft_revision: str | None = None
    draft_facts: ModelFacts | None = None
    """Of the draft model; None where nobody knows it."""
    unknown: str = ""
    """Something else that guesses and takes an unknown amount of memory, as a phrase."""


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
    kv_cache_bytes: int | None = None
    """Size of the KV cache of each rank; None: what is left, or on CPUs what sizing computes."""
    cpu_offload_gib: float = 0.0
    """Weights of each GPU that stay in the host's memory."""
    kv_offload_gib: float = 0.0
    """KV cache in the host's memory, of all ranks together."""
    adapters: Adapters | None = None
    speculation: Speculation | None = None

    @property
    def speculative_tokens(self) -> int:
        """Tokens that are guessed at once."""
        return self.speculation.tokens if self.speculation else 0
