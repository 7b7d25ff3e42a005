"""`status` of an InferenceDeployment as pydantic models."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel

from inference_operator.api.conditions import MAX_MESSAGE_LENGTH, Condition
from inference_operator.api.reasons import ConditionType
from inference_operator.api.spec import Device
from inference_operator.manifest import GPU_RESOURCE, Manifest

NEVER_OBSERVED = -1
"""`observedGeneration` before the operator has seen the resource, so that kstatus reports InProgress."""


MAX_EXTERNAL_URLS = 16


def _camel(name: str) -> str:
    """The JSON name of a field, with units as they are written.

    Examples:
        >>> _camel("kv_cache_gib")
        'kvCacheGiB'
    """
    return to_camel(name).replace("Gib", "GiB").replace("Urls", "URLs")


class _StatusModel(BaseModel):
    model_config = ConfigDict(
        alias_generator=_camel, validate_by_alias=True, validate_by_name=True, frozen=True, extra="ignore"
    )


class PerGpuStatus(_StatusModel):
    """The memory of one GPU, in GiB."""

    memory_gib: float = Field(description="Total memory, as CUDA reports it.")
    requested_gib: float = Field(
        0.0,
        description="Memory that the engine may use: total memory times `gpuMemoryUtilization`.",
    )
    weights_gib: float = Field(description="Memory of the model's weights.")
    activation_gib: float = Field(description="Peak memory of activations.")
    non_torch_gib: float = Field(description="Memory outside PyTorch: CUDA context and communication buffers.")
    cuda_graphs_gib: float = Field(description="Memory of CUDA graphs.")
    kv_cache_gib: float = Field(description="Memory available for the KV cache.")
    kv_cache_tokens: int = Field(description="Capacity of the KV cache in tokens.")
    kv_token_bytes: int = Field(description="Bytes of KV cache per token.")
    headroom_gib: float = Field(description="KV cache memory beyond one sequence of `maxModelLen` tokens.")
    max_concurrency_at_full_context: float = Field(
        0.0,
        description="Sequences of `maxModelLen` tokens that fit into the KV cache at once.",
    )
    max_concurrency_at_2048_tokens: float = Field(
        0.0,
        description="Sequences of 2,048 tokens that fit into the KV cache at once.",
    )
    origins: dict[str, str] = Field({}, max_length=16, description="Source of each figure.")


class LearnedStatus(_StatusModel):
    """What an engine reported when it did not start, and the sizes that it had."""

    gpu: str = Field("", description="Kind of GPU of that engine.")
    tensor: int = Field(description="Tensor parallel size of that engine.")
    context: int | None = Field(None, description="Context length in tokens for which its memory was too small.")
    batched_tokens: int | None = Field(None, description="Maximum tokens per scheduler iteration of that engine.")
    longest: int | None = Field(None, description="Longest context in tokens that it reported to fit.")
    memory_gib: float = Field(0.0, description="Memory of one GPU that it used beyond the estimate, in GiB.")
    kv_cache_bytes: int | None = Field(
        None, description="Size of its KV cache, if the plan set it.", json_schema_extra={"format": "int64"}
    )


class PlanStatus(_StatusModel):
    """The sizes that the engines run with."""

    device: Device = Field(description="Type of device that engines run on.")
    tensor_parallel_size: int = Field(description="Tensor parallel size of one engine.")
    pipeline_parallel_size: int = Field(1, description="Pipeline parallel size of one engine.")
    gpus_per_replica: int = Field(description="GPUs per engine pod.")
    resource: str = Field(GPU_RESOURCE, description="Extended resource by which pods request GPUs.")
    gpu: str = Field("", description="Kind of GPU that the engines were sized for.")
    node_selector: dict[str, str] = Field({}, max_length=16, description="Node labels that select these GPUs.")
    labels_of_kind: bool = Field(
        False,  # noqa: FBT003 - a field's default
        description="Whether every node label that names `gpu` selects nodes, beside `nodeSelector`.",
    )
    avoided_products: tuple[str, ...] = Field((), max_length=64, description="GPU products that engines must not use.")
    max_model_len: int | None = Field(None, description="Maximum context length in tokens.")
    max_num_seqs: int | None = Field(None, description="Maximum sequences per scheduler iteration.")
    max_num_batched_tokens: int | None = Field(None, description="Maximum tokens per scheduler iteration.")
    left_to_engine: tuple[str, ...] = Field(
        (),
        max_length=3,
        description="Which of `maxModelLen`, `maxNumSeqs` and `maxNumBatchedTokens` the engine derives itself. No"
        " argument sets them.",
    )
    gpu_memory_utilization: float | None = Field(None, description="Fraction of GPU memory that the engine may use.")
    video_refused: bool = Field(
        False,  # noqa: FBT003 - a field's default
        description="Whether the engines refuse requests with video, and reserve no memory for it;"
        " `engine.multimodal.video` changes it.",
    )
    tool_call_parser: str = Field("", description="Parser of tool calls that `Auto` stands for; absent if none.")
    reasoning_parser: str = Field("", description="Parser of reasoning that `Auto` stands for; absent if none.")
    cpu: str = Field(description="CPU request of the engine container.")
    memory: str = Field(description="Memory request of the engine container.")
    ephemeral_storage: str = Field(description="Ephemeral storage request of the engine container.")
    shared_memory: str = Field(description="Size of /dev/shm in the engine container.")
    kv_cache_bytes: int | None = Field(
        None,
        description="Size of the KV cache of each rank, for engines on CPUs.",
        json_schema_extra={"format": "int64"},
    )
    weight_bytes: int | None = Field(
        None, description="Size of the checkpoint in bytes.", json_schema_extra={"format": "int64"}
    )
    context_reduced: bool = Field(
        False,  # noqa: FBT003 - a field's default
        description="Whether `maxModelLen` is below the length that sizing aims at.",
    )
    cpu_offload_gib: float = Field(0.0, description="GiB of each GPU's weights that stay in host memory.")
    assumptions: tuple[str, ...] = Field((), max_length=16, description="Assumptions made for facts that are unknown.")
    unaccounted: tuple[str, ...] = Field(
        (),
        max_length=16,
        description="Parts that need memory of unknown size.",
    )
    unchecked_reason: str = Field(
        "",
        description="Why the memory was not computed.",
    )
    per_gpu: PerGpuStatus | None = Field(None, description="Memory of one GPU.")
    revision: int = Field(
        0,
        alias="decision",
        description="How many times the sizes were computed again: no node could run them, or an engine reported too"
        " little memory.",
    )
    learned: LearnedStatus | None = Field(
        None, description="What an engine reported when it did not start; the sizes follow from it."
    )
    spec_hash: str = Field(
        "",
        description="Hash of the part of the spec that the sizes depend on.",
    )

    @model_serializer(mode="wrap")
    def _without_empty(self, dump: SerializerFunctionWrapHandler) -> Manifest:
        """The fields that have a value; an empty string, list or map is left out."""
        fields: Manifest = dump(self)
        return {
            name: value
            for name, value in fields.items()
            if value not in ("", [], (), {}) and value is not False and (name, value) != ("decision", 0)
        }


class KvCacheStatus(_StatusModel):
    """The capacity of an engine's KV cache in tokens."""

    estimated_tokens: int | None = Field(None, description="Capacity as computed by sizing; absent if not computed.")
    reported_tokens: int = Field(description="Capacity as reported by the first engine of this pod template.")
    pod_template_hash: str = Field(
        "",
        description="Hash of the pod template of that engine.",
    )


class EngineStatus(_StatusModel):
    """The engine that runs."""

    image: str = Field(description="Container image of the engine. It is pinned until `spec.engine` changes.")
    model_commit: str = Field(
        "",
        description=(
            "Commit of the hub repository, or digest of the bucket's listing, that the engines load. It is pinned with"
            " the sizes."
        ),
    )
    kv_cache: KvCacheStatus | None = Field(None, description="KV cache capacity, once a ready engine has reported it.")
    unread_metrics: int = Field(0, description="Ready engines whose metrics the operator cannot read.")

    @model_serializer(mode="wrap")
    def _without_empty(self, dump: SerializerFunctionWrapHandler) -> Manifest:
        """The fields that have a value."""
        fields: Manifest = dump(self)
        return {name: value for name, value in fields.items() if value not in ("", 0)}


class StartupStep(StrEnum):
    """The steps of an engine's start, in their order."""

    WAITING_FOR_QUEUE = "WaitingForQueue"
    WAITING_FOR_NODE = "WaitingForNode"
    PREPARING_POD = "PreparingPod"
    PULLING_IMAGES = "PullingImages"
    STARTING_ENGINE = "StartingEngine"
    SETTING_UP = "SettingUp"
    CONNECTING_GPUS = "ConnectingGPUs"
    DOWNLOADING_MODEL = "DownloadingModel"
    LOADING_WEIGHTS = "LoadingWeights"
    COMPILING = "Compiling"
    WARMING_UP = "WarmingUp"
    CAPTURING_CUDA_GRAPHS = "CapturingCUDAGraphs"


class StartupStatus(_StatusModel):
    """The engine that is furthest in its start."""

    pod: str = Field(description="Name of its pod.")
    step: StartupStep = Field(description="The step that it has reached.")
    percent: int | None = Field(None, description="How much of the weights it has loaded, in whole tens of percent.")


class AutoscalingStatus(_StatusModel):
    """The last decision about the number of engines."""

    desired_replicas: int = Field(description="Engines that are wanted.")
    reason: str = Field("", max_length=1024, description="Why, when this number was decided.")
    last_scale_time: str | None = Field(
        None, description="Time of the decision.", json_schema_extra={"format": "date-time"}
    )
    start_seconds: int | None = Field(None, description="Seconds from a new engine to its readiness, as measured.")
    target_concurrency: int | None = Field(None, description="Requests that one engine should have at a time.")
    target_bound: str = Field("", description="What decides `targetConcurrency`.")
    target_factor: float | None = Field(
        None, description="Correction of the computed target by measured latencies; absent if none."
    )


class Status(_StatusModel):
    """The observed state of an InferenceDeployment."""

    observed_generation: int = Field(
        NEVER_OBSERVED, description="Generation of the spec that this status was computed from."
    )
    conditions: tuple[Condition, ...] = Field(
        (),
        max_length=16,
        description="Conditions; kstatus reads Ready, Reconciling and Stalled.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    reason: str = Field(
        "", max_length=64, description="Reason of the condition that matters most: of what is wrong, else of Ready."
    )
    message: str = Field(
        "", max_length=MAX_MESSAGE_LENGTH, description="Message of that condition: the cause, and what helps."
    )
    model: str = Field("", max_length=1024, description="Name of the model, without scheme and organisation.")
    gpus: str = Field("", max_length=128, description="GPUs of one engine, for example `4xH100-80GB`; `CPU` without.")
    url: str | None = Field(None, description="URL of the OpenAI API inside the cluster.")
    external_urls: tuple[str, ...] = Field(
        (),
        max_length=MAX_EXTERNAL_URLS,
        description="URLs of the OpenAI API outside the cluster, once they have an address.",
    )
    replicas: int = Field(0, description="Number of engine pods.")
    ready_replicas: int = Field(0, description="Number of ready engine pods.")
    ready: str | None = Field(None, description="Ready and desired engine pods, for example `1/2`.")
    selector: str | None = Field(None, description="Label selector of the engine pods, used by `/scale`.")
    plan: PlanStatus | None = Field(None, description="Sizes that the engines run with.")
    engine: EngineStatus | None = Field(None, description="Engine that runs.")
    startup: StartupStatus | None = Field(None, description="Progress of a start; absent while no engine starts.")
    autoscaling: AutoscalingStatus | None = Field(None, description="Last decision about the number of engines.")

    def condition(self, wanted: ConditionType) -> Condition | None:
        """The condition of this type; None if it was never written."""
        return next((c for c in self.conditions if c.type == wanted), None)

    def dump(self) -> Manifest:
        """The status as JSON for the API server: camelCase, without unset fields.

        Examples:
            >>> Status(observed_generation=3).dump()
            {'observedGeneration': 3, 'conditions': [], 'replicas': 0, 'readyReplicas': 0}
        """
        found = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {name: value for name, value in found.items() if value != "" and (name, value) != ("externalURLs", [])}
