"""The parameters of an engine's start that determine its memory, and the sizes that a user requests."""

from dataclasses import dataclass, field, replace
from typing import Self

from inference_operator.api.autoscaling import PERCENTILE, TIME_PER_OUTPUT_TOKEN, TIME_TO_FIRST_TOKEN, AutoscalingSpec
from inference_operator.api.engine_kind import EngineProfile
from inference_operator.hardware.resources import GPU_RESOURCE
from inference_operator.models.facts import ModelFacts, Quantization


@dataclass(frozen=True, slots=True)
class Objective:
    """The latencies that requests shall have, in seconds."""

    ttft: float = TIME_TO_FIRST_TOKEN.total_seconds()
    tpot: float = TIME_PER_OUTPUT_TOKEN.total_seconds()
    """Mean of each further token of a request."""
    percentile: float = PERCENTILE
    """The percentage of the requests that shall have each of them."""
    ttft_per_1000: float = 0.0
    """TTFT for each 1,000 tokens of a prompt, where that is more; 0: what a lone request takes."""

    @classmethod
    def requested(cls, autoscaling: AutoscalingSpec | None) -> Self:
        if autoscaling is None:
            return cls()
        stated = autoscaling.objective
        per_1000 = stated.first_token_per_1000.total_seconds() if stated.first_token_per_1000 else 0.0
        return cls(stated.ttft.total_seconds(), stated.tpot.total_seconds(), stated.percentile, per_1000)


LEAST_SEQUENCES = 64
"""Sequences of a batch below which sizing rather takes more GPUs: with few at once, their arithmetic is idle."""
KV_BYTES = {
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8"), 1),
    **dict.fromkeys(("float16", "half", "bfloat16"), 2),
    **dict.fromkeys(("float32", "float"), 4),
}
"""Bytes of an element of the KV cache by the engine's name of its data type."""


@dataclass(frozen=True, slots=True)
class Adapters:
    """LoRA adapters; the engine reserves memory for them at its start, even if none is loaded."""

    rank: int
    active: int = 1
    """Adapters that may be active at once."""
    kept: int = 1
    """Adapters that each rank keeps in host memory."""
    divided: bool = False
    """Whether tensor parallelism divides both matrices of an adapter; otherwise one of them."""
    element_bytes: int | None = None
    """Bytes of an element; None: as in the model."""
    graph_sets: int = 2
    """Sets of CUDA graphs: one without adapters, one with them."""
    tower: bool = False
    """Whether memory is reserved for adapters of the vision tower too."""


@dataclass(frozen=True, slots=True)
class Speculation:
    tokens: int
    """Draft tokens of one iteration."""
    own_layer: bool = False
    """Whether a layer of the model itself predicts them (multi-token prediction)."""
    head_bytes: int = 0
    """Weights of a trained head that predicts them, which has a layer like one of the model; 0 if unknown or none."""
    draft: str = ""
    """Repository or path of a draft model; empty if there is none."""
    draft_revision: str | None = None
    draft_facts: ModelFacts | None = None
    unknown: str = ""
    """A method that needs an unknown amount of memory, as a phrase."""
    accepted: float | None = None
    """Part of the guessed tokens that the model accepts, as published; None where nobody says."""


@dataclass(frozen=True, slots=True)
class CacheOptions:
    one_kind: bool = False
    """Whether all layers keep every token, also those with a window."""
    ranks: int = 1
    """Tensor ranks that divide the tokens of a sequence (decode context parallelism)."""
    keeps_prefixes: bool = True
    """Whether states at the end of cached prefixes are kept."""
    convolution_bytes: int | None = None
    """Bytes of an element of a convolution's state; None: as in the model."""
    recurrent_bytes: int | None = None
    """Bytes of an element of a recurrent state; None: as in the model."""


@dataclass(frozen=True, slots=True)
class ParallelSizes:
    tensor: int
    pipeline: int = 1
    data: int = 1
    """Groups of ranks with whole attention, and with batches and a KV cache of their own. They share the routed experts
    (expert parallelism). Only users ask for more than one."""
    nodes: int = 1
    """Nodes that the ranks of one engine are divided over. They are numbered node by node: the stages of a pipeline are
    on different nodes before tensor parallelism crosses one (vLLM 0.32.0, `vllm/config/parallel.py`)."""

    @property
    def world_size(self) -> int:
        """Ranks of one engine; on GPUs each rank has one."""
        return self.tensor * self.pipeline * self.data

    @property
    def group(self) -> int:
        """Ranks that exchange activations in each layer."""
        return self.tensor * self.data

    @property
    def ranks_per_node(self) -> int:
        return self.world_size // self.nodes

    def on(self, kind: str) -> str:
        """The sizes in words, with the kind of GPU that has them."""
        return f"{self.words} on {kind}"

    @property
    def words(self) -> str:
        """The parallel sizes and nodes, in words for users.

        Examples:
            >>> ParallelSizes(tensor=4).words, ParallelSizes(tensor=4, pipeline=2).words
            ('tensor parallel 4', 'tensor parallel 4, pipeline parallel 2')
            >>> ParallelSizes(tensor=8, pipeline=2, nodes=2).words
            'tensor parallel 8, pipeline parallel 2 over 2 nodes'
            >>> ParallelSizes(tensor=1, data=16, nodes=2).words
            'tensor parallel 1, data parallel 16 over 2 nodes'
        """
        more = {"pipeline": self.pipeline, "data": self.data}
        words = [
            f"tensor parallel {self.tensor}",
            *(f"{name} parallel {size}" for name, size in more.items() if size > 1),
        ]
        return ", ".join(words) + (f" over {self.nodes} nodes" if self.nodes > 1 else "")


ONE_RANK = ParallelSizes(tensor=1)


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of an engine's start that determine its memory; None: the engine's default."""

    parallel: ParallelSizes = ONE_RANK
    context: int | None = None
    """Longest sequence in tokens; None: the model's own."""
    utilization: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_dtype: str = "auto"
    dtype: str = ""
    """The requested data type of what is not quantized, by the engine's name; empty: its own choice."""
    element_bytes: int | None = None
    """Bytes of an element that is not quantized; None: as in the checkpoint."""
    quantization: Quantization | None = None
    """Quantization that the engine applies while it loads weights; None: as in the checkpoint."""
    attention_groups: int = 1
    """Groups of tensor ranks that each compute attention for requests of their own (data parallel attention)."""
    eager: bool = False
    whole_graphs: bool = True
    """Whether CUDA graphs of whole steps are captured; False also where arguments leave it open."""
    whole_encoder: bool | None = None
    """Whether each tensor rank has the whole encoder of images; None: only if its layers cannot be divided."""
    doubled_batches: bool = False
    """Whether the engine doubles its default batches."""
    expert_parallel: bool = False
    """Whether arguments ask that each rank has whole routed experts; otherwise it has its part of every expert."""
    redundant_experts: int = 0
    """Copies of routed experts beside these, if arguments balance their load."""
    cache: CacheOptions = CacheOptions()
    uncounted: tuple[str, ...] = ()
    """Arguments that change memory in an unknown way."""
    kv_cache_bytes: int | None = None
    """Size of the KV cache of each rank; None: on GPUs the remaining memory, on CPUs what sizing computes."""
    cpu_offload_gib: float = 0.0
    """Weights of each GPU that stay in host memory."""
    kv_offload_gib: float = 0.0
    """KV cache in host memory, for all ranks together."""
    kv_offload_auto: bool = False
    """Whether sizing chooses `kv_offload_gib`, by the memory of the nodes."""
    video: bool = False
    """Whether requests may contain video, for which the engine then reserves memory."""
    adapters: Adapters | None = None
    speculation: Speculation | None = None

    @property
    def has_whole_experts(self) -> bool:
        """Whether each rank has whole routed experts. Data parallel ranks always share them so."""
        return self.expert_parallel or self.parallel.data > 1

    @property
    def speculative_tokens(self) -> int:
        return self.speculation.tokens if self.speculation else 0

    def with_tensor(self, tensor: int) -> "Shape":
        return replace(self, parallel=replace(self.parallel, tensor=tensor))


@dataclass(frozen=True, slots=True)
class SizingInputs:
    tensor: int | None = None
    pipeline: int | None = None
    """Pipeline parallel size; None: sizing chooses it, most often a stage on each node."""
    nodes: int | None = None
    """Nodes of an engine; None: sizing chooses them, one if the model fits on it, or with data parallel ranks."""
    data: int = 1
    """Data parallel size. Sizing never chooses it."""
    concurrency: int | None = None
    """Typical requests that must fit at once; None: `TYPICAL_REQUESTS`."""
    kinds: tuple[str, ...] = ()
    """Kinds or products of GPUs that may be used; empty: any."""
    least_memory_gib: float = 0.0
    least_sequences: int = LEAST_SEQUENCES
    """Sequences of a batch to which sizing reduces it at least."""
    most_sequences: int | None = None
    """Sequences of a batch that sizing takes at most, since an engine reported it; None: it reported none."""
    resource: str = GPU_RESOURCE
    """The extended resource that GPUs are requested by, if sizing knows no GPU."""
    profile: EngineProfile = EngineProfile.BALANCED
    objective: Objective = Objective()
    shape: Shape = field(default_factory=Shape)
    """Everything else. Its parallel sizes are not read; its context is never reduced."""

    @property
    def context(self) -> int | None:
        return self.shape.context

    @property
    def requested_shape(self) -> Shape:
        """The shape with the requested parallel sizes: without them one rank, on several nodes one on each."""
        nodes = self.nodes or 1
        stages = self.pipeline or (nodes if self.data == 1 else 1)
        return replace(self.shape, parallel=ParallelSizes(self.tensor or 1, stages, self.data, nodes))


CONTEXT, SEQUENCES, BATCHED_TOKENS = "maxModelLen", "maxNumSeqs", "maxNumBatchedTokens"
"""Names of the sizes, as in `spec.engine` and `status.plan`."""


def context_left(facts: ModelFacts, requested: int | None, context: int | None) -> bool:
    """Whether the engine derives this context itself from the model's files. From files without one it derives another.

    Args:
        requested: the context that the user requests, or that a correction limits.
    """
    chosen = requested is None and context is not None and context >= facts.context
    return chosen and facts.context_stated
