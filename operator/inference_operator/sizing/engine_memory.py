"""What sizing must know of an engine's memory: constants that an engine's room fills in for its version and device."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GraphMemory:
    """Memory of the CUDA graphs of one rank: a base, and more for each layer of the rank."""

    base_gib: float
    group_base_gib: float
    """The base in a group of tensor ranks."""
    layer_gib: float
    expert_layer_gib: float
    """More for a layer with routed experts."""
    in_budget: bool
    """Whether the KV cache is sized after graphs are taken off; else graphs live outside what the engine may use."""
    largest: int = 512
    """The largest batch that is captured."""


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """How an engine uses the memory of one GPU."""

    origin: str
    """Version, and where its constants come from, for whoever reads the arithmetic."""
    utilization: float
    """Default part of the whole GPU that the engine may use."""
    max_num_seqs: int
    max_num_batched_tokens: int | None
    """None: as many as the longest sequence has, up to `longest_unchunked`."""
    longest_unchunked: int
    chunk_tokens: int
    """Batched tokens for sequences that are longer than that."""
    block_tokens: int
    logit_bytes: float
    """Peak of the sampler for each sequence and word, beside the logits in the model's own type."""
    activation_gib: float
    """Of the peak, what depends on nothing."""
    vision_gib: float
    """Peak of encoding the largest picture, beside its place in the encoder's cache."""
    expert_workspace: bool
    """Mixtures keep the workspace of their kernels beside the sampler's peak."""
    group_gib: tuple[tuple[int, float], ...]
    """Context and communication buffers by tensor ranks: the last entry that is not above them counts."""
    unlinked_group_gib: float
    """The same for a group of GPUs without NVLink."""
    stage_gib: float
    """The same for a stage of a pipeline of single GPUs."""
    graphs: GraphMemory
    hybrid_cache: bool
    """Layers with a window keep only their window; else they count as seeing all."""
    latent_cache: bool
    """Latent attention keeps one vector; else keys and values of all heads."""
    checkpoint_kv_dtype: bool
    """The KV cache takes the type that the checkpoint names."""
    tokens_by_concurrency: bool
    """The tokens it reports are its concurrency times the longest sequence; else blocks times their size."""
    state_blocks: int
    """Blocks of state that a sequence holds in each group of layers with a state."""
    scan_blocks: int
    """As many more, where the layers are Mamba 2."""
    state_bytes: int | None
    """Bytes of an element of a recurrent state; None: as the model says."""
    batches_in_flight: int
    """Batches of which layers with a window keep all tokens beside the window."""
    nearly_equal: float
    """Groups whose layers differ by less are padded to the largest, others cut to the smallest."""
    unprofiled_mxfp4_bytes: float
    """What kernels for MXFP4 take for each batched token after the KV cache has been sized."""

    def context_gib(self, tensor: int, pipeline: int, *, linked: bool) -> float:
        """Memory outside PyTorch: the CUDA context, and buffers of collective operations."""
        if tensor == 1:
            return self.stage_gib if pipeline > 1 else self.group_gib[0][1]
        if not linked:
            return self.unlinked_group_gib
        return [gib for ranks, gib in self.group_gib if ranks <= tensor][-1]
