"""`status` of an InferenceDeployment: what users read back."""

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel

from inference_operator.api.conditions import Condition
from inference_operator.api.reasons import ConditionType
from inference_operator.api.spec import Device
from inference_operator.manifest import Manifest

NEVER_OBSERVED = -1
"""`observedGeneration` before the operator has seen the resource, so that kstatus answers InProgress."""


GPU_RESOURCE = "nvidia.com/gpu"
"""By which GPUs are asked for where a status names nothing else."""


def _camel(name: str) -> str:
    """As Kubernetes writes names, and units as they are written.

    Examples:
        >>> _camel("kv_cache_gib")
        'kvCacheGiB'
    """
    return to_camel(name).replace("Gib", "GiB")


class _Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=_camel, validate_by_alias=True, validate_by_name=True, frozen=True, extra="ignore"
    )


class PerGpuStatus(_Part):
    """The arithmetic of one GPU; memory in GiB."""

    memory_gib: float = Field(description="All memory, as CUDA reports it.")
    offered_gib: float = Field(description="What the engine may use of it.")
    weights_gib: float = Field(description="The model's weights.")
    activation_gib: float = Field(description="The peak of intermediate results.")
    non_torch_gib: float = Field(description="CUDA's context and buffers of communication.")
    cuda_graphs_gib: float = Field(description="CUDA graphs.")
    kv_cache_gib: float = Field(description="What is left for the KV cache.")
    kv_cache_tokens: int = Field(description="Tokens that the KV cache holds.")
    kv_token_bytes: int = Field(description="Bytes that a token adds to it.")
    headroom_gib: float = Field(description="What is left beside one sequence of full length.")
    longest_requests: float = Field(description="Sequences of full length that fit at once.")
    typical_requests: float = Field(description="Sequences of 2,048 tokens that fit at once.")
    origins: dict[str, str] = Field({}, max_length=16, description="Where each term comes from.")


class PlanStatus(_Part):
    """The sizes that the engines run with."""

    device: Device = Field(description="What engines compute on.")
    tensor_parallel_size: int = Field(description="GPUs that one engine spreads its tensors over.")
    pipeline_parallel_size: int = Field(1, description="Stages of one engine.")
    gpus_per_replica: int = Field(description="GPUs of one engine.")
    resource: str = Field(GPU_RESOURCE, description="The extended resource that GPUs are asked for by.")
    gpu: str = Field("", description="The kind of GPU that the engines were sized for.")
    node_selector: dict[str, str] = Field({}, max_length=16, description="What ties engines to nodes with these GPUs.")
    avoided_products: tuple[str, ...] = Field((), max_length=64, description="GPUs that engines are kept from.")
    max_model_len: int | None = Field(None, description="Longest sequence in tokens.")
    max_num_seqs: int | None = Field(None, description="Sequences that are computed at once.")
    max_num_batched_tokens: int | None = Field(None, description="Tokens of one step.")
    gpu_memory_utilization: float | None = Field(None, description="Part of a GPU that the engine may use.")
    cpu: str = Field(description="CPU request of one engine.")
    memory: str = Field(description="Memory request of one engine.")
    ephemeral_storage: str = Field(description="Ephemeral storage request of one engine.")
    shared_memory: str = Field(description="Size of /dev/shm of one engine.")
    kv_cache_bytes: int | None = Field(
        None,
        description="Size of the KV cache of each rank, on CPUs.",
        json_schema_extra={"format": "int64"},
    )
    weight_bytes: int | None = Field(
        None, description="Bytes of the checkpoint.", json_schema_extra={"format": "int64"}
    )
    context_reduced: bool = Field(False, description="Whether sequences are shorter than sizing aims at.")  # noqa: FBT003
    cpu_offload_gib: float = Field(0.0, description="GiB of each GPU's weights that stay in the host's memory.")
    assumptions: tuple[str, ...] = Field((), max_length=16, description="What nobody said and was taken instead.")
    uncounted: tuple[str, ...] = Field((), max_length=16, description="What takes memory of unknown size too.")
    unchecked: str = Field("", description="Why nothing was counted.")
    per_gpu: PerGpuStatus | None = Field(None, description="The arithmetic of one GPU.")
    decision: int = Field(0, description="How often it was decided anew since no node took the engines.")
    asked: str = Field(description="Fingerprint of the part of the spec that this plan answers.")

    @model_serializer(mode="wrap")
    def _stated(self, dump: SerializerFunctionWrapHandler) -> Manifest:
        """What there is; an empty text, list or map says nothing."""
        fields: Manifest = dump(self)
        return {
            name: value
            for name, value in fields.items()
            if value not in ("", [], (), {}) and value is not False and (name, value) != ("decision", 0)
        }


class KvCacheStatus(_Part):
    """The KV cache of an engine, in tokens."""

    estimated_tokens: int | None = Field(None, description="As sizing counted them; absent where nothing was counted.")
    reported_tokens: int = Field(description="As the first engine of this specification reported them.")
    template: str = Field(description="Fingerprint of the pod template that this is about.")


class EngineStatus(_Part):
    """The engine that runs."""

    image: str = Field(description="Container image; pinned until the specification of the engine changes.")
    kv_cache: KvCacheStatus | None = Field(None, description="Its KV cache, once a ready engine has reported it.")


class Status(_Part):
    """What is, beside what was asked."""

    observed_generation: int = Field(
        NEVER_OBSERVED, description="The generation of the spec that this status is about."
    )
    conditions: tuple[Condition, ...] = Field(
        (),
        max_length=16,
        description="Ready, Reconciling and Stalled as kstatus reads them, and what they are made of.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    url: str | None = Field(None, description="Where the OpenAI API answers inside the cluster.")
    replicas: int = Field(0, description="Engine pods that exist.")
    ready_replicas: int = Field(0, description="Engine pods that are ready.")
    ready: str | None = Field(None, description="Ready engines of wanted engines, for people.")
    selector: str | None = Field(None, description="Selects the engine pods; used by `/scale`.")
    plan: PlanStatus | None = Field(None, description="The sizes that the engines run with.")
    engine: EngineStatus | None = Field(None, description="The engine that runs.")

    def condition(self, wanted: ConditionType) -> Condition | None:
        """The condition of a type, if it has been written."""
        return next((c for c in self.conditions if c.type == wanted), None)

    def dump(self) -> Manifest:
        """As JSON for the API server: camelCase, unset fields left out.

        Examples:
            >>> Status(observed_generation=3).dump()
            {'observedGeneration': 3, 'conditions': [], 'replicas': 0, 'readyReplicas': 0}
        """
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
