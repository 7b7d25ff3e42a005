"""The facts of a model that sizing uses: layers, matrices, quantization, size of the weights."""

from dataclasses import dataclass
from enum import StrEnum

from inference_operator.models.side_files import NO_SIDE_FILES, SideFiles
from inference_operator.models.tower import Tower


class Attention(StrEnum):
    FULL = "full"
    """Keys and values of every token (multi-head and grouped-query attention)."""
    SLIDING = "sliding"
    """Keys and values of the last `window` tokens."""
    CHUNKED = "chunked"
    """Keys and values of the current chunk of `window` tokens (Llama 4)."""
    LATENT = "latent"
    """One compressed vector for every token, the same for all heads (multi-head latent attention)."""
    STATE = "state"
    """A state of fixed size for each sequence (Mamba, linear attention)."""


OF_ALL_TOKENS = (Attention.FULL, Attention.LATENT)
"""Layers that keep something of every token."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of one STATE layer for one sequence, in elements; tensor parallelism divides both parts."""

    convolution_width: int
    """Channels of the causal convolution."""
    convolution_length: int
    """Past inputs that the convolution keeps: its kernel size minus one."""
    recurrent: int
    recurrent_bytes: int | None
    """Bytes of an element of the recurrent state; None: the model's own type."""
    scanned: bool = False
    """True: Mamba 2; False: linear attention."""
    inputs: int = 0
    """Rows of the projection into the layer; 0: half as many again as channels of the convolution."""
    outputs: int = 0
    """Columns of the projection out of it; 0: half as many as channels of the convolution."""


@dataclass(frozen=True, slots=True)
class LayerGroup:
    attention: Attention
    layers: int
    kv_heads: int = 0
    """Heads of keys and values; 1 for LATENT, 0 for STATE."""
    elements: int = 0
    """Elements of one head for one token: keys and values together."""
    window: int = 0
    state: State | None = None
    token_bytes: float | None = None
    """Bytes for one token in all heads, if they do not depend on the cache's data type."""


class Split(StrEnum):
    ROWS = "rows"
    """By outputs."""
    COLUMNS = "columns"
    """By inputs."""
    KV_ROWS = "kv rows"
    """By KV heads; each rank has at least one."""
    WHOLE = "whole"
    """Not divided: every rank has the whole matrix."""


class MatrixPart(StrEnum):
    ATTENTION = "attention"
    MLP = "mlp"
    EXPERTS = "experts"
    SMALL = "router, norms"
    EMBEDDING = "embedding"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight matrix, as the engine allocates it: outputs by inputs, `stacked` of them in one tensor."""

    part: MatrixPart
    rows: int
    columns: int
    layers: int
    split: Split
    stacked: int = 1
    joined: int = 1
    """Matrices with the same inputs that this one fuses: keys and values, gate and up."""

    @property
    def elements(self) -> int:
        return self.rows * self.columns * self.layers * self.stacked


EVERY_PART = (MatrixPart.ATTENTION, MatrixPart.MLP, MatrixPart.EXPERTS)
"""The parts that can be quantized."""


class Kernel(StrEnum):
    NONE = "none"
    FP8 = "fp8"
    FP8_BLOCK = "fp8 block"
    INT8 = "int8"
    AWQ = "awq"
    GPTQ = "gptq"
    MXFP4 = "mxfp4"
    NVFP4 = "nvfp4"
    BITSANDBYTES = "bitsandbytes"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Quantization:
    kernel: Kernel
    bits: float
    """Bits of a quantized element, including its part of the scales."""
    group: int = 0
    """Inputs (and, for blocks, outputs) that share a scale; a rank's share must be a multiple. 0: no such rule."""
    parts: tuple[MatrixPart, ...] = EVERY_PART
    """The parts that are quantized; others have the model's data type."""
    kv_cache_fp8: bool = False
    """Whether the checkpoint requests a KV cache in 8 bits."""
    method: str = ""
    """The engine's name of the method, as in a checkpoint's config; empty if it has none."""
    part_bits: tuple[tuple[MatrixPart, float], ...] = ()
    """Bits of an element of the parts that are stored in another way than `bits` says."""

    def bits_of(self, part: MatrixPart) -> float:
        return dict(self.part_bits).get(part, self.bits)


@dataclass(frozen=True, slots=True)
class Experts:
    count: int
    top_k: int
    intermediate_size: int


@dataclass(frozen=True, slots=True)
class ModelFacts:
    architecture: str
    hidden_size: int
    vocabulary: int
    heads: int
    """Attention heads; 0 if the config does not state them."""
    layers: int
    groups: tuple[LayerGroup, ...]
    matrices: tuple[Matrix, ...]
    intermediate_size: int
    experts: Experts | None
    has_vision: bool
    tower_whole: bool
    """Whether every tensor rank has the whole vision encoder."""
    context: int
    """Tokens that an engine derives from the model's files without an argument; an assumption if they tell none."""
    context_stated: bool
    """Whether the model's files tell the context; otherwise it is assumed."""
    rotary_dimension: int
    element_bytes: int
    """Bytes of an element that is not quantized."""
    quantization: Quantization
    weight_bytes: int
    weights_from: str
    assumptions: tuple[str, ...] = ()
    tower: Tower | None = None
    """The encoder of images, video or sound; None if the model reads only text."""
    longest_context: int | None = None
    """Tokens that an argument may set at most. Above `context` for LongRoPE; None: the files do not tell."""
    is_pooling: bool = False
    """Whether the engine serves embeddings, classes or scores, and not text."""
    is_encoder: bool = False
    """Whether each token attends to all tokens of its prompt: there is no KV cache, and prompts are not divided."""
    model_type: str = ""
    rope: tuple[tuple[str, float | str], ...] = ()
    """The parameters of rotary positions, the same for all layers; empty if the config does not tell them."""
    predicting_layers: int | None = None
    """Layers that predict further tokens (multi-token prediction); None: the config does not tell."""
    names_attention: bool = False
    """Whether the config names the kind of each layer, and all have keys and values."""
    has_stages: bool = True
    """Whether the engine can divide the layers over the stages of a pipeline."""
    has_unknown_states: bool = False
    """Whether the engine keeps states for some layers, and the config does not tell for which."""
    side: SideFiles = NO_SIDE_FILES
    commit: str = ""
    """The commit of the hub repository that the facts come from; empty where there is none."""
    is_whole: bool = False
    """Whether the model's own files were read, so that what they do not state is absent; entries of the catalogue may
    lack a field."""
    other_architectures: tuple[str, ...] = ()
    """Further entries of the config's `architectures`, which some engines read too."""
    download_bytes: int = 0
    recipe_cache: str = ""
    """The type of the KV cache that the engine's recipe for the model sets; empty if it sets none."""

    @property
    def most_stages(self) -> int:
        return self.layers if self.has_stages else 1

    @property
    def kv_heads(self) -> int:
        """KV heads, which tensor parallelism divides; 0 if no layer has any."""
        return max((group.kv_heads for group in self.groups if group.attention is not Attention.STATE), default=0)

    @property
    def uses_mla(self) -> bool:
        """Whether the model uses multi-head latent attention: every tensor rank has the same KV cache."""
        return any(group.attention is Attention.LATENT for group in self.groups)

    @property
    def has_states(self) -> bool:
        return any(group.attention is Attention.STATE for group in self.groups)

    @property
    def uses_sparse_mla(self) -> bool:
        """Whether a token attends only to the latent vectors that an index selects (DeepSeek V3.2, V4, GLM 5)."""
        return any(group.attention is Attention.LATENT and group.token_bytes is not None for group in self.groups)
