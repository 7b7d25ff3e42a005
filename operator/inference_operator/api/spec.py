"""`spec` of an InferenceDeployment: what users write, with the rules that the API server enforces.

Every model becomes a part of the CRD (`crd.py`); what a rule is stands in `part.py`.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from inference_operator.api.container import BY_NAME, Argument, Environment, Image, ResourcesSpec
from inference_operator.api.duration import Within
from inference_operator.api.gpu import GpuSpec
from inference_operator.api.part import Must, Part, cel, form
from inference_operator.api.pod_template import PodTemplateSpec
from inference_operator.api.scheduling import SchedulingSpec

MAX_NAME_LENGTH = 55
"""A Service's name has at most 63 characters (DNS-1035 label); the longest suffix of a child is `-engines`."""

MAX_TOKENS = 16_777_216
"""Tokens of a sequence or a step; the longest context of a public model is 10,485,760 (Llama 4 Scout)."""

MAX_REPLICAS = 256
"""Routers find engines by A records of 16 bytes in one answer of at most 8,192 (`router/haproxy.cfg.j2`)."""

DRAIN_TIMEOUT = timedelta(minutes=5)
"""Time for an answer of 8,192 tokens at 30 tokens/s, which is 273 s; and, with what comes before and after it, below
the 600 s that a node autoscaler gives the pods of a node that it removes (kubernetes/autoscaler,
cluster-autoscaler/FAQ.md, `max-graceful-termination-sec`). Idle pods do not wait."""


class Device(StrEnum):
    """What an engine computes on."""

    GPU = "GPU"
    CPU = "CPU"


_SOURCE = form(
    r"(hf|pvc|oci)://\S+",
    "must begin with `hf://`, `pvc://` or `oci://`, without spaces, for example `hf://Qwen/Qwen3-8B`",
)
_SERVED_NAME = form(
    "[A-Za-z0-9][-A-Za-z0-9._/:]*",
    "must begin with a letter or digit and may contain letters, digits and `-._/:`, for example `qwen3-8b`",
)


class ModelSpec(Part):
    """Which model is served, and under which name."""

    source: str = Field(
        min_length=1,
        max_length=1024,
        json_schema_extra=cel(_SOURCE),  # of resources that come from a file, `models` asks this and more
        description=(
            "Where the model is: `hf://org/name` (Hugging Face hub), `pvc://claim/path` (a folder in a"
            " PersistentVolumeClaim of this namespace) or `oci://image-reference` (an OCI image mounted as a volume,"
            " with the model's files at its root). Required. Change: rolling restart."
        ),
    )
    served_name: Annotated[str, StringConstraints(min_length=1, max_length=253), Must(_SERVED_NAME)] | None = Field(
        None,
        description=(
            "Name of the model in the OpenAI API. Default: the name of this resource. Change: rolling restart."
        ),
    )


_WORD = "^[a-z0-9][-_a-z0-9]*$"
_ANEW = "Change: rolling restart, with sizes decided anew."


class DType(StrEnum):
    """What the engine computes in."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class KvCacheDType(StrEnum):
    """What keys and values are kept in."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FP8 = "fp8"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"


class EngineSpec(Part):
    """The engine that computes answers."""

    image: Image | None = Field(
        None,
        description=(
            "Container image of the engine. Default: pinned by the operator's release. Change: rolling restart."
        ),
    )
    args: tuple[Argument, ...] = Field(
        (),
        max_length=64,
        description=(
            "More arguments of `vllm serve`, for example `--enable-auto-tool-choice`. Arguments that the operator sets"
            " itself are refused with the field to use instead. Default: none. Change: rolling restart."
        ),
    )
    env: Environment = Field(
        (),
        max_length=64,
        description="More environment variables of the engine. Default: none. Change: rolling restart.",
        json_schema_extra=BY_NAME,
    )
    max_model_len: int | None = Field(
        None,
        ge=1,
        le=MAX_TOKENS,
        description="Longest sequence, prompt and answer together, in tokens; it is never shortened. Default: as long"
        f" as fits, at least 32768 or the model's own where that is possible. {_ANEW}",
    )
    max_num_seqs: int | None = Field(
        None, ge=1, le=65536, description=f"Sequences that are computed at once. Default: the engine's own. {_ANEW}"
    )
    max_num_batched_tokens: int | None = Field(
        None, ge=1, le=MAX_TOKENS, description=f"Tokens of one step. Default: the engine's own. {_ANEW}"
    )
    gpu_memory_utilization: float | None = Field(
        None,
        ge=0.05,
        le=1.0,
        description=f"Part of a GPU's whole memory that the engine may use. Default: the engine's own. {_ANEW}",
    )
    dtype: DType = Field(
        DType.AUTO, description=f"What weights that are not quantised are computed in. Default: `auto`. {_ANEW}"
    )
    quantization: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        pattern=_WORD,
        description="How the engine quantises weights while it loads them, for example `fp8`. Default: as the"
        f" checkpoint says. {_ANEW}",
    )
    kv_cache_dtype: KvCacheDType = Field(
        KvCacheDType.AUTO, description=f"What keys and values are kept in. Default: `auto`. {_ANEW}"
    )
    cpu_offload_gib: int = Field(
        0,
        ge=0,
        le=4096,
        alias="cpuOffloadGiB",
        description="GiB of each GPU's weights that stay in the host's memory, from where each step reads them; the"
        f" condition Sized says how slow that is. Default: 0. {_ANEW}",
    )
    resources: ResourcesSpec = Field(
        default_factory=ResourcesSpec,
        description="CPU, memory and ephemeral storage of one engine, key by key."
        " Default: computed; status.plan shows them. Change: rolling restart.",
    )


class HardwareSpec(Part):
    """What engines run on."""

    device: Device = Field(Device.GPU, description=f"`GPU` or `CPU`. Default: `GPU`. {_ANEW}")
    gpu: GpuSpec = Field(default_factory=GpuSpec, description="Which GPUs may be used.")


class ParallelismSpec(Part):
    """How one engine spreads over GPUs."""

    tensor: int | None = Field(
        None,
        ge=1,
        le=64,
        description=(
            "Tensor parallel size: GPUs over which one engine divides each layer. Default: the smallest that fits."
            f" {_ANEW}"
        ),
    )
    pipeline: int = Field(
        1,
        ge=1,
        le=16,
        description="Pipeline parallel size: stages into which one engine divides the layers, on one node. It has so"
        f" many times `tensor` GPUs. Default: 1. {_ANEW}",
    )


class RouterSpec(Part):
    """The load balancer in front of the engines."""

    replicas: int = Field(2, ge=1, le=16, description="Number of routers. Default: 2. Change: in place.")


class RolloutStrategy(StrEnum):
    """What comes first when an engine is replaced."""

    AUTO = "Auto"
    SURGE = "Surge"
    REPLACE = "Replace"


class RolloutSpec(Part):
    """How a change of the engines is carried out."""

    strategy: RolloutStrategy = Field(
        RolloutStrategy.AUTO,
        description=(
            "`Surge` starts each new engine before its predecessor ends, which takes room for one engine more;"
            " `Replace` ends one engine at a time before its successor starts; `Auto` surges where there is room and"
            " replaces otherwise. Default: `Auto`. Change: in place."
        ),
    )
    progress_deadline: Annotated[timedelta, Within("1m", "48h", "30m")] | None = Field(
        None,
        description=(
            "How long engines or routers may make no progress before the condition Stalled says so, for example"
            " `30m`. Default: `startupTimeout` and 5 minutes. Change: in place."
        ),
    )


class Spec(Part):
    """What an InferenceDeployment asks for."""

    model: ModelSpec = Field(description="Which model is served.")
    engine: EngineSpec = Field(default_factory=EngineSpec, description="The engine that computes answers.")
    hardware: HardwareSpec = Field(default_factory=HardwareSpec, description="What engines run on.")
    parallelism: ParallelismSpec = Field(
        default_factory=ParallelismSpec, description="How one engine spreads over GPUs."
    )
    replicas: int = Field(
        1,
        ge=0,
        le=MAX_REPLICAS,
        description="Number of engines; `kubectl scale` and autoscalers write it through `/scale`. Default: 1."
        " Change: in place.",
        json_schema_extra={"default": 1},
    )
    router: RouterSpec = Field(default_factory=RouterSpec, description="The load balancer in front of the engines.")
    rollout: RolloutSpec = Field(default_factory=RolloutSpec, description="How a change of the engines is carried out.")
    startup_timeout: Annotated[timedelta, Within("1m", "24h", "45m")] | None = Field(
        None,
        description=(
            "How long an engine may take from its start until it answers before it is started again, for example"
            " `45m`. Default: by the size of the checkpoint, at least `30m`. Change: rolling restart."
        ),
    )
    drain_timeout: Annotated[timedelta, Within("1s", "1h", "5m")] = Field(
        DRAIN_TIMEOUT,
        description=(
            "How long an engine or router that is to stop may go on with the requests that it has, for example"
            " `20m`; without requests it stops at once. Default: `5m`. Change: rolling restart."
        ),
    )
    paused: bool = Field(
        False,  # noqa: FBT003 - a field's default
        description=(
            "Whether the operator leaves everything as it is: no child is made, changed, mended or deleted, whatever"
            " is edited or scaled; the status goes on telling the truth. Default: false. Change: in place; what was"
            " edited meanwhile is done when it ends."
        ),
    )
    scheduling: SchedulingSpec = Field(
        default_factory=SchedulingSpec,
        description="Where engines run and how the scheduler treats them; not the routers.",
    )
    pod_template: PodTemplateSpec = Field(
        default_factory=PodTemplateSpec, description="What the engines' pods get beside what the operator gives them."
    )
