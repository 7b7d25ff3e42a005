"""`spec.engine` of an InferenceDeployment: the kind of engine, its limits, inputs and container."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field, StringConstraints

from inference_operator.api.adapters import REVISION
from inference_operator.api.container import BY_NAME, Argument, Environment, Image, ResourcesSpec
from inference_operator.api.engine_kind import WITH_DRAFT, EngineKind, EngineProfile, SpeculativeMethod
from inference_operator.api.generation import GenerationSpec
from inference_operator.api.hardware import RESIZES
from inference_operator.api.router_exposure import HOST_LABEL
from inference_operator.api.validation import CelRules, Rule, SpecModel, matches

MAX_TOKENS = 16_777_216
"""Tokens of a sequence or scheduler iteration; the longest context of a public model is 10,485,760 (Llama 4 Scout)."""

HUB_SOURCE = matches(
    "hf://[A-Za-z0-9][-A-Za-z0-9._]*/[A-Za-z0-9][-A-Za-z0-9._]*", "must be a repository of the hub: `hf://org/name`"
)
_WORD = "^[a-z0-9][-_a-z0-9]*$"


class DType(StrEnum):
    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class KvCacheDType(StrEnum):
    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FP8 = "fp8"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"


_NAME = "^[A-Za-z0-9][-_A-Za-z0-9]*$"

Parser: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=_NAME)]
"""`Auto`, `None`, or the engine's name of a parser."""


MAX_MEDIA_DOMAINS = 32
MediaDomain: TypeAlias = Annotated[
    str, StringConstraints(max_length=253, pattern=rf"^({HOST_LABEL}\.)*[a-z]([-a-z0-9]*[a-z0-9])?$")
]
"""A DNS name in lower case. Its last label begins with a letter, so it is no IP address."""


class MultimodalSpec(SpecModel):
    video: bool = Field(
        False,  # noqa: FBT003 - a field's default
        description="Allows video in requests. The engine then reserves memory for the longest one, up to 15 GiB."
        f" Images need no setting. Default: false. {RESIZES}",
    )
    allowed_domains: tuple[MediaDomain, ...] = Field(
        (),
        max_length=MAX_MEDIA_DOMAINS,
        description="Host names from which the engine fetches images, audio and video that a request names by URL. Each"
        " name counts exactly, for all ports. Redirects are not followed. Default: none; requests then contain their"
        " media as `data:` URLs. Change: rolling restart.",
    )


class RopeScalingSpec(SpecModel):
    factor: float = Field(
        ge=1.0,
        le=64.0,
        description="Times the original positions that a sequence may have. The model's card names the value."
        f" {RESIZES}",
    )
    original_max_position_embeddings: int | None = Field(
        None,
        ge=1,
        le=MAX_TOKENS,
        description="Positions that the factor multiplies, as the model's card names them. Default: those that the"
        f" model's config names for YaRN, or else the model's context. {RESIZES}",
    )
    theta: float | None = Field(
        None,
        ge=1.0,
        le=1e12,
        description=f"Base of the rotary positions. Default: `rope_theta` of the model's config. {RESIZES}",
    )


AUTO_MEMORY = "Auto"


class KvOffloadSpec(SpecModel):
    memory: Annotated[str, StringConstraints(max_length=8, pattern="^(Auto|[1-9][0-9]{0,4}Gi)$")] = Field(
        description="Host memory of an engine for it, over all of its ranks, for example `64Gi`, or `Auto` for half of"
        " what the node has left for each engine, as status.plan shows it. The pod requests it in addition to the rest."
        f" Required. {RESIZES}"
    )

    @property
    def gib(self) -> int:
        """The stated size; 0 for `Auto`."""
        return 0 if self.memory == AUTO_MEMORY else int(self.memory.removesuffix("Gi"))


MAX_SPECULATIVE_TOKENS = 16
"""No published setting is longer (vLLM 0.32.0, `docs/features/speculative_decoding`; vllm-project/recipes)."""


class SpeculativeSpec(SpecModel):
    method: SpeculativeMethod = Field(
        SpeculativeMethod.OFF,
        description="What guesses: layers of the model itself (`MTP`), a trained head (`EAGLE3`), a smaller model"
        " (`DraftModel`), the text so far (`Ngram`), or the first of `MTP`, `EAGLE3` and `DraftModel` that is known for"
        " the model (`Auto`; never with the profile `Throughput`, and only with `Latency` where nobody publishes how"
        " many guesses the model accepts; with `Latency` not where a token would come less than 1.15 times as fast at"
        " the target concurrency)."
        f" Answers stay those of the model. Default: `Off`. {RESIZES}",
    )
    model: Annotated[str, StringConstraints(min_length=8, max_length=200), CelRules(HUB_SOURCE)] | None = Field(
        None,
        description="Repository of the head or smaller model, of `EAGLE3` and `DraftModel`. It is read as `model` is:"
        " with its token, and through `cache`. Default: the one that the operator knows for the model."
        f" {RESIZES}",
    )
    revision: Annotated[str, StringConstraints(min_length=1, max_length=253), CelRules(REVISION)] | None = Field(
        None, description=f"Branch, tag or commit of that repository. Default: `main`. {RESIZES}"
    )
    tokens: int | None = Field(
        None,
        ge=1,
        le=MAX_SPECULATIVE_TOKENS,
        description=f"Tokens that are guessed for each step. Default: what the method's publisher uses. {RESIZES}",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.model) || self.method in ['EAGLE3', 'DraftModel']",
            lambda self: self.model is None or self.method in WITH_DRAFT,
            "`model` needs the method `EAGLE3` or `DraftModel`",
        ),
        Rule(
            "!has(self.revision) || has(self.model)",
            lambda self: self.revision is None or self.model is not None,
            "`revision` needs a `model`",
        ),
    )

    @property
    def repository(self) -> str:
        """The repository of `model`; empty if none is named."""
        return (self.model or "").removeprefix("hf://")


_Rank: TypeAlias = Literal[1, 8, 16, 32, 64, 128, 256, 320, 512]
ADAPTER_RANKS: tuple[int, ...] = get_args(_Rank)
"""Ranks for which vLLM makes slots, ascending (0.32.0, `config/lora.py`, `MaxLoRARanks`)."""
DEFAULT_ADAPTER_RANK = 16
"""The engine's own default (vLLM 0.32.0, `config/lora.py`), and the rank of most adapters."""
AdapterRank: TypeAlias = Annotated[
    _Rank, Field(json_schema_extra={"minimum": ADAPTER_RANKS[0], "maximum": ADAPTER_RANKS[-1]})
]


class EngineSpec(SpecModel):
    kind: EngineKind = Field(
        EngineKind.AUTO,
        description="The inference engine: `VLLM`, `Transformers`, `LlamaCpp` (for models in GGUF), or `Auto` for the"
        " first of them that can run the model. `SGLang` runs on GPUs, and only where it is named. Default: `Auto`."
        f" {RESIZES}",
    )
    image: Image | None = Field(
        None,
        description=("Container image of the engine. Default: set by the operator's release. Change: rolling restart."),
    )
    args: tuple[Argument, ...] = Field(
        (),
        max_length=64,
        description="Additional arguments of the engine, for example vLLM's `--enable-prompt-tokens-details`."
        " Arguments that the operator sets itself are rejected; the message names the field to use. `$(NAME)` is not"
        " expanded. Default: none. Change: rolling restart.",
    )
    env: Environment = Field(
        (),
        max_length=64,
        description="Additional environment variables of the engine container. `$(NAME)` is not expanded."
        " Default: none. Change: rolling restart.",
        json_schema_extra=BY_NAME,
    )
    profile: EngineProfile = Field(
        EngineProfile.BALANCED,
        description="What sizing prefers among the GPUs and sizes that fit: the most requests per second for the cost"
        " within `autoscaling.objective` (`Balanced`), without an objective (`Throughput`), the least time per token"
        f" (`Latency`), or the fewest GPUs (`Smallest`). Default: `Balanced`. {RESIZES}",
    )
    max_model_len: int | None = Field(
        None,
        ge=1,
        le=MAX_TOKENS,
        description="Maximum context length (prompt and output) in tokens. The operator never reduces a value that"
        " is set. Default: the model's own length up to 262144, or the longest beside which eight requests of 2048"
        " tokens fit, at least 32768 if possible."
        f" {RESIZES}",
    )
    rope_scaling: RopeScalingSpec | None = Field(
        None,
        description="Extends the context of a model of text by YaRN, as its card describes it; `maxModelLen` may then"
        f" be as long. Default: none. {RESIZES}",
    )
    max_num_seqs: int | None = Field(
        None, ge=1, le=65536, description=f"Maximum sequences per scheduler iteration. Default: the engine's. {RESIZES}"
    )
    max_num_batched_tokens: int | None = Field(
        None,
        ge=1,
        le=MAX_TOKENS,
        description=f"Maximum tokens per scheduler iteration. Default: the engine's. {RESIZES}",
    )
    gpu_memory_utilization: float | None = Field(
        None,
        ge=0.05,
        le=1.0,
        description=f"Fraction of GPU memory that the engine may use. Default: the engine's. {RESIZES}",
    )
    dtype: DType = Field(
        DType.AUTO, description=f"Data type of unquantized weights and activations. Default: `auto`. {RESIZES}"
    )
    quantization: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        pattern=_WORD,
        description="Quantization method to apply when loading weights, for example `fp8`. Default: the method stored"
        f" in the checkpoint. {RESIZES}",
    )
    kv_cache_dtype: KvCacheDType = Field(
        KvCacheDType.AUTO,
        description="Data type of the KV cache. `auto` is FP8 where the checkpoint has scales for it, and where vLLM's"
        " recipe for the repository sets it and the GPUs have a kernel for it; else that of the model, as `bfloat16`."
        f" Default: `auto`. {RESIZES}",
    )
    kv_offload: KvOffloadSpec | None = Field(
        None,
        description="Keeps what the KV cache of the GPUs drops in the host's memory, where later requests with the same"
        f" beginning find it. On GPUs only. Default: none. {RESIZES}",
    )
    speculative: SpeculativeSpec = Field(
        default_factory=SpeculativeSpec,
        description="Speculative decoding: shorter times per token while few requests run.",
    )
    tool_call_parser: Parser = Field(
        "Auto",
        description="Parser of tool calls, with which `tools` of a chat request work: a name as in vLLM's"
        " `--tool-call-parser`, `Auto` for that of the model's family (status.plan), or `None`. `Auto` is none"
        " for images of another vLLM than the operator's own, or without a version in their tag. Default: `Auto`."
        " Change: rolling restart.",
    )
    reasoning_parser: Parser = Field(
        "Auto",
        description="Parser that separates reasoning from the answer: a name as in vLLM's `--reasoning-parser`, `Auto`"
        " for that of the model's family (status.plan), or `None`. `Auto` is none for images of another vLLM than the"
        " operator's own, or without a version in their tag. Default: `Auto`. Change: rolling restart.",
    )
    generation: GenerationSpec = Field(
        default_factory=GenerationSpec,
        description="Sampling parameters of requests that name none, and the most that a request may ask for.",
    )
    multimodal: MultimodalSpec = Field(
        default_factory=MultimodalSpec, description="Inputs that are not text, for models that read them."
    )
    adapter_slots: int | None = Field(
        None,
        ge=0,
        le=128,
        description="Adapters that an engine can use in one batch. More may be listed. Default: 4 with"
        f" `model.adapters`, else 0. {RESIZES}",
    )
    max_adapter_rank: AdapterRank | None = Field(
        None, description=f"Largest rank of an adapter. Default: that of the largest adapter, at least 16. {RESIZES}"
    )
    cpu_offload_gib: int = Field(
        0,
        ge=0,
        le=4096,
        alias="cpuOffloadGiB",
        description="GiB of each GPU's weights to keep in host memory. Every forward pass reads them over PCIe; the"
        f" condition Sized shows the added latency. Default: 0. {RESIZES}",
    )
    resources: ResourcesSpec = Field(
        default_factory=ResourcesSpec,
        description="CPU, memory and ephemeral storage of the engine container. Each key overrides one computed"
        " value. Default: computed, see `infd plan -v`. Change: rolling restart.",
    )
