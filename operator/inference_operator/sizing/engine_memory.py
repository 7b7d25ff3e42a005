"""Constants of an engine's memory use; each engine provides them for its version and device."""

from dataclasses import dataclass, replace
from typing import Self

LARGEST_GRAPH = 512
"""Largest batch that vLLM captures by default (0.32.0, `config/vllm.py`)."""


@dataclass(frozen=True, slots=True)
class GraphMemory:
    """Memory of CUDA graphs on one rank: a base, and an amount for each layer of the rank."""

    base_gib: float
    group_base_gib: float
    """The base with several ranks that exchange activations in each layer."""
    layer_gib: float
    expert_layer_gib: float
    """Additional amount for a layer with routed experts."""
    in_budget: bool
    """Whether the engine subtracts graphs before it sizes the KV cache; otherwise they are outside of its budget."""
    largest: int = LARGEST_GRAPH
    whole_steps: bool = False
    """Whether graphs of whole steps are captured, and counted, beside those of the parts between attention."""
    fitted_to: str = ""
    """Measurements that the amounts are fitted to, if they are few."""


@dataclass(frozen=True, slots=True)
class EngineMemory:
    origin: str
    """The engine's version and the source of the constants, as users read it."""
    utilization: float
    """Default fraction of the GPU's memory that the engine may use."""
    max_num_seqs: int
    max_num_batched_tokens: int | None
    """None: the tokens of the longest sequence, up to `longest_unchunked`."""
    longest_unchunked: int
    chunk_tokens: int
    """Batched tokens if sequences are longer than `longest_unchunked`."""
    block_tokens: int
    logit_bytes: float
    """Peak bytes of the sampler for each sequence and vocabulary entry, beside the logits in the model's data type."""
    activation_gib: float
    hidden_tensors: int
    """Tensors of the hidden size that exist at the same time in a layer."""
    request_state: bool
    """Whether each rank keeps, for each sequence of a batch: its token ids in pinned memory of the host, tables of its
    blocks on the GPU, and on the last stage counts of the vocabulary's entries, for penalties."""
    spare: float
    """Fraction of the GPU that stays free where sizing chooses a size."""
    vision_gib: float
    """Peak of encoding the largest image, without its entry in the encoder cache."""
    group_gib: tuple[tuple[int, float], ...]
    """CUDA context and communication buffers by ranks that exchange activations in each layer; the last entry up to
    their number applies."""
    unlinked_group_gib: float
    """The same for tensor parallelism without NVLink."""
    stage_gib: float
    """The same for a pipeline stage of one GPU."""
    graphs: GraphMemory
    hybrid_cache: bool
    """Whether layers with a window cache only the window; otherwise they cache every token."""
    latent_cache: bool
    """Whether MLA caches one vector for each token; otherwise keys and values of all heads."""
    checkpoint_kv_dtype: bool
    """Whether the KV cache has the data type that the checkpoint names."""
    tokens_by_concurrency: bool
    """Whether reported tokens are concurrency times the longest sequence; otherwise blocks times their size."""
    state_blocks: int
    """Blocks of a sequence in each group of layers with a state."""
    scan_blocks: int
    """Additional blocks if the layers are Mamba 2."""
    state_bytes: int | None
    """Bytes of an element of a recurrent state; None: as in the model."""
    batches_in_flight: int
    """Batches whose tokens layers with a window cache in addition to the window."""
    nearly_equal: float
    """Kinds whose numbers of layers differ by less than this factor form groups of the largest number, others of the
    smallest."""
    unprofiled_mxfp4_bytes: float
    """Bytes that MXFP4 kernels allocate for each batched token after the KV cache has been sized."""
    block_per_sequence: bool
    """Whether CUDA graphs of whole steps need a block for each sequence of a batch, if layers have states."""

    def with_reported(self, gib: float) -> Self:
        """The same with memory that an engine reported to use beyond the estimate; 0: it reported none."""
        if not gib:
            return self
        origin = f"{self.origin}, and {gib:.2f} GiB that the engine reported"
        return replace(self, activation_gib=self.activation_gib + gib, origin=origin)

    def context_gib(self, group: int, pipeline: int, *, linked: bool) -> float:
        if group == 1:
            return self.stage_gib if pipeline > 1 else self.group_gib[0][1]
        if not linked:
            return self.unlinked_group_gib
        return [gib for ranks, gib in self.group_gib if ranks <= group][-1]
