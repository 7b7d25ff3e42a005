"""What sizing needs to know of a model: shapes and bytes, with where each came from."""

from dataclasses import dataclass
from enum import StrEnum

GIB = 2**30


class Attention(StrEnum):
    """How a layer remembers the tokens before."""

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


@dataclass(frozen=True, slots=True)
class State:
    """The state that one STATE layer keeps for one sequence, in elements; both are divided over tensor ranks."""

    convolution_width: int
    """Channels of the causal convolution."""
    convolution_length: int
    """Past inputs that it keeps: its kernel size less one."""
    recurrent: int
    recurrent_bytes: int | None
    """Bytes of an element of the recurrent state; None: the model's own type."""
    scanned: bool = False
    """Mamba 2; else linear attention."""


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that remember in the same way."""

    attention: Attention
    layers: int
    kv_heads: int = 0
    """Heads of keys and values; 1 for LATENT, 0 for STATE."""
    elements: int = 0
    """Elements that one head keeps for one token: keys and values together."""
    window: int = 0
    state: State | None = None
    token_bytes: float | None = None
    """Bytes for one token in all heads, where the cache's type does not decide them."""


class Split(StrEnum):
    """How tensor parallelism divides a matrix."""

    ROWS = "rows"
    """By outputs."""
    COLUMNS = "columns"
    """By inputs."""
    KV_ROWS = "kv rows"
    """By heads of keys and values; each rank keeps at least one."""
    WHOLE = "whole"
    """Every rank keeps all of it."""


class Part(StrEnum):
    """Where a matrix belongs."""

    ATTENTION = "attention"
    MLP = "mlp"
    EXPERTS = "experts"
    SMALL = "router, norms"
    EMBEDDING = "embedding"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight matrix, as the engine allocates it: outputs by inputs, `stacked` of them in one tensor.

    `fused` names the tensor that several matrices are stored in together (queries, keys and values).
    """

    part: Part
    rows: int
    columns: int
    layers: int
    split: Split
    stacked: int = 1
    fused: str = ""
    joined: int = 1
    """Matrices of the same inputs that this one joins: keys and values, gate and up."""

    @property
    def elements(self) -> int:
        """Elements over all layers."""
        return self.rows * self.columns * self.layers * self.stacked


class Kernel(StrEnum):
    """What a quantised matrix is multiplied by; rules of size follow from it."""

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
    """How weights are stored."""

    kernel: Kernel
    bits: float
    """Bits of a quantised element, scales included."""
    group: int = 0
    """Inputs (and, for blocks, outputs) that share a scale; a rank's share must be a multiple. 0: no such rule."""
    parts: tuple[Part, ...] = (Part.ATTENTION, Part.MLP, Part.EXPERTS)
    """What is quantised; the rest keeps its type."""
    kv_cache_fp8: bool = False
    """The checkpoint says that its KV cache is kept in 8 bits."""


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts of a mixture."""

    count: int
    used: int
    intermediate_size: int


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model, as far as sizing needs to know it."""

    architecture: str
    hidden_size: int
    vocabulary: int
    heads: int
    """Attention heads; 0 if the config does not say."""
    layers: int
    groups: tuple[LayerGroup, ...]
    matrices: tuple[Matrix, ...]
    intermediate_size: int
    experts: Experts | None
    sees: bool
    """It takes pictures too."""
    tower_whole: bool
    """Its vision tower is not divided over tensor ranks."""
    context: int
    """The longest sequence that the model itself knows, in tokens."""
    context_stated: bool
    """Whether the config says so; else the context is assumed."""
    rotary_dimension: int
    element_bytes: int
    """Bytes of an element that is not quantised."""
    quantization: Quantization
    weight_bytes: int
    weights_from: str
    """Where `weight_bytes` comes from."""
    assumptions: tuple[str, ...] = ()
    """What the config does not say and was taken instead."""

    @property
    def kv_heads(self) -> int:
        """The heads of keys and values that tensor parallelism divides; 0 if no layer has any."""
        return max((one.kv_heads for one in self.groups if one.attention is not Attention.STATE), default=0)

    @property
    def is_latent(self) -> bool:
        """Whether its KV cache is the same on every tensor rank."""
        return any(one.attention is Attention.LATENT for one in self.groups)
