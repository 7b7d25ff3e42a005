"""`spec` of an InferenceDeployment as pydantic models, with the validation rules of the API server.

`crd.py` generates the CRD from these models; `validation.py` defines the rules.
"""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field, StringConstraints

from inference_operator.api.adapters import (
    CLAIM_SCHEME,
    REVISION,
    SERVED_NAME,
    SOURCE,
    TOKEN_OF_HUB,
    Adapters,
    AdapterSpec,
    TokenSecretRef,
)
from inference_operator.api.autoscaling import AutoscalingSpec
from inference_operator.api.autoscaling_schedule import MAX_REPLICAS
from inference_operator.api.cache import CacheSpec
from inference_operator.api.container import (
    BY_NAME,
    Argument,
    Environment,
    Image,
    ResourcesSpec,
)
from inference_operator.api.duration import Within
from inference_operator.api.engine_kind import EngineKind
from inference_operator.api.engine_profile import EngineProfile
from inference_operator.api.generation import GenerationSpec
from inference_operator.api.gpu import GpuSpec
from inference_operator.api.network import NetworkSpec
from inference_operator.api.pod_template import PodTemplateSpec
from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.api.router_exposure import HOST_LABEL
from inference_operator.api.s3 import S3Spec
from inference_operator.api.scheduling import SchedulingSpec
from inference_operator.api.validation import CelRules, Former, NameOf, Rule, SpecModel, cel
from inference_operator.api.verify import PINNED_IMAGE, VerifySpec
from inference_operator.manifest import CLAIM

MAX_NAME_LENGTH = 55
"""A Service's name has at most 63 characters (DNS-1035 label); the longest suffix of a child is `-engines`."""

MAX_TOKENS = 16_777_216
"""Tokens of a sequence or scheduler iteration; the longest context of a public model is 10,485,760 (Llama 4 Scout)."""

DRAIN_TIMEOUT = timedelta(minutes=5)
"""Time for an answer of 8,192 tokens at 30 tokens/s, which is 273 s; and, with what comes before and after it, below
the 600 s that a node autoscaler gives the pods of a node that it removes (kubernetes/autoscaler,
cluster-autoscaler/FAQ.md, `max-graceful-termination-sec`). Idle pods do not wait."""


HUB_TOKEN = "HF_TOKEN"  # noqa: S105 - a name
"""Variable from which the hub's client takes its token (huggingface_hub 2.4.0, `constants.py`)."""


class Device(StrEnum):
    """Type of device that engines run on."""

    GPU = "GPU"
    CPU = "CPU"


LISTING_DIGEST = re.compile("[0-9a-f]{40}")
"""The revision of a model in a bucket."""


class ModelSpec(SpecModel):
    """The model to serve and its name in the OpenAI API."""

    source: Annotated[str, NameOf(CLAIM, scheme=CLAIM_SCHEME)] = Field(
        min_length=1,
        max_length=1024,
        json_schema_extra=cel(SOURCE),  # for resources that come from a file, `models` checks this and more
        description=(
            "Model to serve: `hf://org/name` (Hugging Face Hub), `s3://bucket/path` (needs `cache`), `pvc://claim/path`"
            " (directory in a PersistentVolumeClaim in the same namespace) or `oci://image-reference` (OCI image"
            " mounted as a volume, with the model files at its root). A path that ends in `.gguf` names one of several"
            " models in GGUF: `hf://org/name/FILE.gguf`, `pvc://claim/path/FILE.gguf`. Required. Change: rolling"
            " restart."
        ),
    )
    served_name: Annotated[str, StringConstraints(min_length=1, max_length=253), CelRules(SERVED_NAME)] | None = Field(
        None,
        description=(
            "Name of the model in the OpenAI API. Default: the name of this resource. Change: rolling restart."
        ),
    )
    revision: Annotated[str, StringConstraints(min_length=1, max_length=253), CelRules(REVISION)] | None = Field(
        None,
        description=(
            "Branch, tag or commit on the hub, or digest of the listing of an `s3://` model. Default: `main`, or the"
            " first listing. Change: rolling restart."
        ),
    )
    token_secret_ref: TokenSecretRef | None = Field(
        None,
        description="Secret with a token of the Hugging Face Hub, for gated and private models. Default: none."
        " Change: rolling restart.",
    )
    s3: S3Spec = Field(default_factory=S3Spec, description="Store of an `s3://` model.")
    allow_pickle: bool = Field(
        False,  # noqa: FBT003 - a field's default
        description="Whether weights may be pickle files, which can run code. Default: false."
        " Change: rolling restart with new sizing.",
    )
    adapters: Adapters = Field(
        (),
        description="LoRA adapters that engines serve under names of their own beside the model. They need `cache`."
        " Default: none. Change: in place, within `engine.adapterSlots` and `engine.maxAdapterRank`; the first one"
        " restarts the engines.",
        json_schema_extra=BY_NAME,
    )
    verify: VerifySpec | None = Field(
        None, description="Key of cosign that must have signed an `oci://` model. Change: in place, verified anew."
    )

    former: ClassVar[tuple[Former, ...]] = (Former("tokenSecret", "tokenSecretRef", "object"),)
    rules: ClassVar[tuple[Rule, ...]] = (
        TOKEN_OF_HUB,
        Rule(
            "!has(self.revision) || self.source.startsWith('hf://')"
            " || self.source.startsWith('s3://') && self.revision.matches('^[0-9a-f]{40}$')",
            lambda self: (
                not self.revision
                or self.source.startswith("hf://")
                or (self.source.startswith("s3://") and LISTING_DIGEST.fullmatch(self.revision) is not None)
            ),
            "`revision` needs a source `hf://org/name`, or `s3://` and the 40 digits that `infd inspect` prints",
        ),
        Rule(
            "!has(self.s3) || self.source.startsWith('s3://')"
            " || has(self.adapters) && self.adapters.exists(one, one.source.startsWith('s3://'))",
            lambda self: "s3" not in self.model_fields_set or any(map(_is_in_bucket, (self, *self.adapters))),
            "`s3` needs a source `s3://bucket/path`",
        ),
        Rule(
            "!has(self.adapters) || !has(self.servedName) || self.adapters.all(one, one.name != self.servedName)",
            lambda self: all(one.name != self.served_name for one in self.adapters),
            "an adapter needs another name than `servedName`, which is the model's",
        ),
        Rule(
            "!has(self.allowPickle) || !self.allowPickle || self.source.startsWith('pvc://') || self.source.matches('^oci://.*@sha256:[0-9a-f]+$')"
            " || has(self.revision) && self.revision.matches('^[0-9a-f]{40}$')",
            lambda self: not self.allow_pickle or _cannot_change(self.source, self.revision or ""),
            "`allowPickle` needs weights that cannot change: `revision` with 40 hexadecimal digits, or `oci://` with"
            " `@sha256:`",
        ),
        Rule(
            "!has(self.verify) || self.source.matches('^oci://.*@sha256:[0-9a-f]+$')",
            lambda self: not self.verify or PINNED_IMAGE.fullmatch(self.source) is not None,
            "`verify` needs an image by its digest: `oci://registry/name@sha256:...`",
        ),
    )


def _is_in_bucket(part: ModelSpec | AdapterSpec) -> bool:
    return part.source.startswith("s3://")


def _cannot_change(source: str, revision: str) -> bool:
    """Whether the files behind a source stay as they are, as far as the source says."""
    return source.startswith("pvc://") or bool(PINNED_IMAGE.fullmatch(source) or LISTING_DIGEST.fullmatch(revision))


_WORD = "^[a-z0-9][-_a-z0-9]*$"
_RESIZES = "Change: rolling restart with new sizing."


class DType(StrEnum):
    """Data type of weights and activations, as in vLLM's `--dtype`."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class KvCacheDType(StrEnum):
    """Data type of the KV cache."""

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
    """Inputs that are not text."""

    video: bool = Field(
        False,  # noqa: FBT003 - a field's default
        description="Allows video in requests. The engine then reserves memory for the longest one, up to 15 GiB."
        f" Images need no setting. Default: false. {_RESIZES}",
    )
    allowed_domains: tuple[MediaDomain, ...] = Field(
        (),
        max_length=MAX_MEDIA_DOMAINS,
        description="Host names from which the engine fetches images, audio and video that a request names by URL. Each"
        " name counts exactly, for all ports. Redirects are not followed. Default: none; requests then contain their"
        " media as `data:` URLs. Change: rolling restart.",
    )


_Rank: TypeAlias = Literal[1, 8, 16, 32, 64, 128, 256, 320, 512]
ADAPTER_RANKS: tuple[int, ...] = get_args(_Rank)
"""Ranks for which vLLM makes slots, ascending (0.32.0, `config/lora.py`, `MaxLoRARanks`)."""
DEFAULT_ADAPTER_RANK = 16
"""The engine's own default (vLLM 0.32.0, `config/lora.py`), and the rank of most adapters."""
AdapterRank: TypeAlias = Annotated[
    _Rank, Field(json_schema_extra={"minimum": ADAPTER_RANKS[0], "maximum": ADAPTER_RANKS[-1]})
]


class EngineSpec(SpecModel):
    """The inference engine."""

    kind: EngineKind = Field(
        EngineKind.AUTO,
        description="The inference engine: `VLLM`, `Transformers`, `LlamaCpp` (for models in GGUF), or `Auto` for the"
        " first of them that can run the model. `SGLang` runs on GPUs, and only where it is named. Default: `Auto`."
        f" {_RESIZES}",
    )
    image: Image | None = Field(
        None,
        description=("Container image of the engine. Default: set by the operator's release. Change: rolling restart."),
    )
    args: tuple[Argument, ...] = Field(
        (),
        max_length=64,
        description=(
            "Additional arguments of the engine, for example vLLM's `--enable-prompt-tokens-details`. Arguments that"
            " the operator sets itself are rejected; the message names the field to use. `$(NAME)` is not expanded."
            " Default: none."
            " Change: rolling restart."
        ),
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
        f" (`Latency`), or the fewest GPUs (`Smallest`). Default: `Balanced`. {_RESIZES}",
    )
    max_model_len: int | None = Field(
        None,
        ge=1,
        le=MAX_TOKENS,
        description="Maximum context length (prompt and output) in tokens. The operator never reduces a value that"
        " is set. Default: the model's own length, or the longest that fits four times, at least 32768 if possible."
        f" {_RESIZES}",
    )
    max_num_seqs: int | None = Field(
        None,
        ge=1,
        le=65536,
        description=f"Maximum sequences per scheduler iteration. Default: the engine's. {_RESIZES}",
    )
    max_num_batched_tokens: int | None = Field(
        None,
        ge=1,
        le=MAX_TOKENS,
        description=f"Maximum tokens per scheduler iteration. Default: the engine's. {_RESIZES}",
    )
    gpu_memory_utilization: float | None = Field(
        None,
        ge=0.05,
        le=1.0,
        description=f"Fraction of GPU memory that the engine may use. Default: the engine's. {_RESIZES}",
    )
    dtype: DType = Field(
        DType.AUTO, description=f"Data type of unquantized weights and activations. Default: `auto`. {_RESIZES}"
    )
    quantization: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        pattern=_WORD,
        description="Quantization method to apply when loading weights, for example `fp8`. Default: the method stored"
        f" in the checkpoint. {_RESIZES}",
    )
    kv_cache_dtype: KvCacheDType = Field(
        KvCacheDType.AUTO, description=f"Data type of the KV cache. Default: `auto`. {_RESIZES}"
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
        f" `model.adapters`, else 0. {_RESIZES}",
    )
    max_adapter_rank: AdapterRank | None = Field(
        None,
        description=f"Largest rank of an adapter. Default: that of the largest adapter, at least 16. {_RESIZES}",
    )
    cpu_offload_gib: int = Field(
        0,
        ge=0,
        le=4096,
        alias="cpuOffloadGiB",
        description="GiB of each GPU's weights to keep in host memory. Every forward pass reads them over PCIe; the"
        f" condition Sized shows the added latency. Default: 0. {_RESIZES}",
    )
    resources: ResourcesSpec = Field(
        default_factory=ResourcesSpec,
        description="CPU, memory and ephemeral storage of the engine container. Each key overrides one computed"
        " value. Default: computed, see `infd plan -v`. Change: rolling restart.",
    )


class HardwareSpec(SpecModel):
    """The hardware that engines run on."""

    device: Device = Field(Device.GPU, description=f"Type of device, `GPU` or `CPU`. Default: `GPU`. {_RESIZES}")
    gpu: GpuSpec = Field(default_factory=GpuSpec, description="GPUs that engines may use.")
    network: NetworkSpec = Field(
        default_factory=NetworkSpec,
        description="Network between the pods of an engine over several nodes; an engine on one node has none.",
    )


class ParallelismSpec(SpecModel):
    """Parallelism of one engine over its GPUs."""

    tensor: int | None = Field(
        None,
        ge=1,
        le=64,
        description=(
            "Tensor parallel size: number of GPUs that share each layer. Default: the smallest size that fits."
            f" {_RESIZES}"
        ),
    )
    pipeline: int | None = Field(
        None,
        ge=1,
        le=16,
        description="Pipeline parallel size: number of stages that the layers are divided into. One engine uses"
        f" `tensor` x `pipeline` GPUs. Default: 1 on one node, a stage on each of several nodes. {_RESIZES}",
    )
    nodes: int | None = Field(
        None,
        ge=1,
        le=16,
        description="Nodes of one engine: a group of pods with equal numbers of GPUs, one on each. It must divide"
        f" `tensor` x `pipeline`. Default: 1 if the model fits on one node, else the fewest that hold it. {_RESIZES}",
    )
    data: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Data parallel size, for models with routed experts: groups of `tensor` GPUs with whole attention"
        " and their own KV cache, which share the experts (expert parallelism). One engine uses `tensor` x `data` GPUs;"
        f" `nodes` must divide `data`. Not run by the project. Default: 1. {_RESIZES}",
    )


class RolloutStrategy(StrEnum):
    """The order in which engine pods are replaced."""

    AUTO = "Auto"
    SURGE = "Surge"
    REPLACE = "Replace"


class RolloutSpec(SpecModel):
    """The rollout of changes to the engine pods."""

    strategy: RolloutStrategy = Field(
        RolloutStrategy.AUTO,
        description=(
            "`Surge` starts a new engine pod before it stops an old one, which needs resources for one more engine."
            " `Replace` stops an old engine pod before it starts a new one. `Auto` surges if resources are free and"
            " replaces otherwise. Default: `Auto`. Change: in place."
        ),
    )
    progress_deadline: Annotated[timedelta, Within("1m", "48h", "30m")] | None = Field(
        None,
        description=(
            "Maximum time without rollout progress of engines or routers before the condition Stalled is True, for"
            " example `30m`. Default: `startupTimeout` plus 5 minutes. Change: in place."
        ),
    )


class Spec(SpecModel):
    """The desired state of an InferenceDeployment."""

    model: ModelSpec = Field(description="Model to serve.")
    engine: EngineSpec = Field(default_factory=EngineSpec, description="Inference engine.")
    hardware: HardwareSpec = Field(default_factory=HardwareSpec, description="Hardware that engines run on.")
    parallelism: ParallelismSpec = Field(
        default_factory=ParallelismSpec, description="Parallelism of one engine over its GPUs."
    )
    replicas: int = Field(
        1,
        ge=0,
        le=MAX_REPLICAS,
        description="Number of engine pods. `kubectl scale` and autoscalers set it through `/scale`. Default: 1."
        " Change: in place.",
        json_schema_extra={"default": 1},
    )
    autoscaling: AutoscalingSpec | None = Field(
        None,
        description="Scales the engines between `minReplicas` and `maxReplicas` by the number of requests;"
        " `replicas` is"
        " only the initial number. Default: none.",
    )
    router: RouterSpec = Field(default_factory=RouterSpec, description="Load balancer in front of the engines.")
    rollout: RolloutSpec = Field(default_factory=RolloutSpec, description="Rollout of changes to the engines.")
    startup_timeout: Annotated[timedelta, Within("1m", "24h", "45m")] | None = Field(
        None,
        description=(
            "Maximum time from the start of an engine container until it is ready; after that the kubelet restarts"
            " it. Example: `45m`. Default: computed from the checkpoint size, at least `30m`. Change: rolling restart."
        ),
    )
    drain_timeout: Annotated[timedelta, Within("1s", "1h", "5m")] = Field(
        DRAIN_TIMEOUT,
        description=(
            "Maximum time for a terminating engine or router to finish its requests, for example `20m`. It stops at"
            " once if it has none. Default: `5m`. Change: rolling restart."
        ),
    )
    paused: bool = Field(
        False,  # noqa: FBT003 - a field's default
        description=(
            "Whether the operator stops creating, changing and deleting child objects. The status is still updated."
            " Default: false. Change: in place; edits made while paused are applied when it is set to false."
        ),
    )
    cache: CacheSpec | None = Field(
        None,
        description="Claim that keeps the downloaded model, so that later starts are fast; `{}` creates one."
        " Default: none, each engine downloads the model. Change: rolling restart.",
    )
    scheduling: SchedulingSpec = Field(
        default_factory=SchedulingSpec,
        description="Scheduling of the engine pods. Routers have their own, `router.scheduling`.",
    )
    pod_template: PodTemplateSpec = Field(default_factory=PodTemplateSpec, description="Additions to the engine pods.")

    @property
    def most_replicas(self) -> int:
        """The largest number of engine pods that this specification can lead to."""
        return self.autoscaling.max_replicas if self.autoscaling else self.replicas

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.cache) || self.model.source.startsWith('hf://') || self.model.source.startsWith('s3://')"
            " || has(self.model.adapters) && self.model.adapters.size() > 0"
            " || has(self.engine) && has(self.engine.adapterSlots) && self.engine.adapterSlots > 0",
            lambda spec: (
                spec.cache is None
                or spec.model.source.startswith(("hf://", "s3://"))
                or bool(spec.model.adapters or spec.engine.adapter_slots)
            ),
            "`cache` beside a model of a volume or an image keeps adapters: it needs `model.adapters` or"
            " `engine.adapterSlots`",
        ),
        Rule(
            "!has(self.model.adapters) || self.model.adapters.size() == 0 || has(self.cache)",
            lambda spec: not spec.model.adapters or spec.cache is not None,
            "`model.adapters` need `cache`: a claim that they are copied to, for example `cache: {}`",
        ),
        Rule(
            "!has(self.model.adapters) || self.model.adapters.size() == 0 || !has(self.engine)"
            " || !has(self.engine.adapterSlots) || self.engine.adapterSlots > 0",
            lambda spec: not spec.model.adapters or spec.engine.adapter_slots != 0,
            "`model.adapters` need `engine.adapterSlots` of 1 or more",
        ),
        Rule(
            "!has(self.engine) || !has(self.engine.adapterSlots) || self.engine.adapterSlots == 0 || has(self.cache)",
            lambda spec: not spec.engine.adapter_slots or spec.cache is not None,
            "`engine.adapterSlots` needs `cache`: a claim that adapters are copied to, for example `cache: {}`",
        ),
        Rule(
            "!self.model.source.startsWith('s3://') || has(self.cache)",
            lambda spec: spec.cache is not None or not spec.model.source.startswith("s3://"),
            "an `s3://` model needs `cache`: a claim that it is downloaded to, for example `cache: {}`",
        ),
        Rule(
            "self.replicas > 0 || !has(self.router) || !has(self.router.strategy)"
            " || self.router.strategy != 'External'",
            lambda spec: spec.replicas > 0 or spec.router.strategy is not RouterStrategy.EXTERNAL,
            "`replicas` must be 1 or more with `router.strategy: External`: no router holds requests at zero",
        ),
        Rule(
            "!has(self.model.tokenSecretRef) || !has(self.engine) || !has(self.engine.env)"
            " || !self.engine.env.exists(variable, variable.name == 'HF_TOKEN')",
            lambda spec: not spec.model.token_secret_ref or all(one.name != HUB_TOKEN for one in spec.engine.env),
            "`model.tokenSecretRef` and the variable `HF_TOKEN` of `engine.env` are both set: remove one of them",
        ),
        Rule(
            "!has(self.autoscaling) || !has(self.autoscaling.minReplicas) || self.autoscaling.minReplicas > 0"
            " || !has(self.router) || !has(self.router.strategy) || self.router.strategy != 'External'",
            lambda spec: (
                spec.autoscaling is None
                or spec.autoscaling.min_replicas > 0
                or spec.router.strategy is not RouterStrategy.EXTERNAL
            ),
            "`autoscaling.minReplicas` must be 1 or more with `router.strategy: External`: no router holds requests at"
            " zero",
        ),
    )
