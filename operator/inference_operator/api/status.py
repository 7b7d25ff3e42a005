"""`status` of an InferenceDeployment as pydantic models."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from inference_operator.api.adapters import MAX_ADAPTERS, MAX_NAME
from inference_operator.api.conditions import MAX_MESSAGE_LENGTH, Condition
from inference_operator.api.container import BY_NAME, list_map
from inference_operator.api.hardware import Device
from inference_operator.api.json_names import json_name
from inference_operator.api.reasons import ConditionType
from inference_operator.manifest import Manifest

NEVER_OBSERVED = -1
"""`observedGeneration` before the operator has seen the resource, so that kstatus reports InProgress."""

MAX_EXTERNAL_URLS = 16
MAX_ROLES = 16


class _StatusModel(BaseModel):
    model_config = ConfigDict(
        alias_generator=json_name, validate_by_alias=True, validate_by_name=True, frozen=True, extra="ignore"
    )


def _optional(empty: object, description: str, **options: Any) -> Any:  # noqa: ANN401 - as pydantic's `Field`
    """A field that is left out of the written status while it has this value."""
    return Field(empty, exclude_if=lambda value: value == empty, description=description, **options)


class PlanStatus(_StatusModel):
    device: Device = Field(description="Type of device that engines run on.")
    gpu: str = _optional("", "Kind of GPU that the engines were sized for.")
    gpus_per_replica: int = Field(description="GPUs of one engine, on all of its nodes.")
    tensor_parallel_size: int = Field(description="Tensor parallel size of one engine.")
    pipeline_parallel_size: int = Field(1, description="Pipeline parallel size of one engine.")
    data_parallel_size: int = _optional(1, "Data parallel size of one engine; absent for one rank.")
    nodes: int = _optional(1, "Nodes of one engine, each with a pod of it; absent for one node.")
    max_model_len: int | None = Field(None, description="Maximum context length in tokens.")
    max_num_seqs: int | None = Field(None, description="Maximum sequences per scheduler iteration.")
    kv_cache_tokens: int | None = Field(None, description="Capacity of an engine's KV cache in tokens, as computed.")
    kv_cache_dtype: str = _optional("", "Type of the KV cache that a recipe sets for `auto`; absent if none.")
    kv_offload_memory: str = _optional(
        "", "Host memory for the KV cache of an engine that `Auto` stands for; absent if none."
    )
    tool_call_parser: str = _optional("", "Parser of tool calls that `Auto` stands for; absent if none.")
    reasoning_parser: str = _optional("", "Parser of reasoning that `Auto` stands for; absent if none.")


class KvCacheStatus(_StatusModel):
    estimated_tokens: int | None = Field(None, description="Capacity as computed by sizing; absent if not computed.")
    reported_tokens: int = Field(description="Capacity as reported by the first engine of this pod template.")
    pod_template_hash: str = Field("", description="Hash of the pod template of that engine.")


class NetworkStatus(_StatusModel):
    in_use: str = Field(description="Network that NCCL uses, by its own name, such as `IB` or `Socket`.")
    resource: str = Field(description="Resource of the network devices that the pods request.")
    pod_template_hash: str = Field(description="Hash of the pod template of that engine.")


class EngineStatus(_StatusModel):
    kind: str = _optional("", "Kind of the engine. It is pinned with the sizes.")
    implementation: str = _optional(
        "", "Implementation of the model, by the engine's own name; absent where the engine chooses it."
    )
    image: str = Field(
        description="Container image of the engine. It is pinned until `spec.engine` changes, or a renewal."
    )
    model_commit: str = _optional(
        "",
        "Commit of the hub repository, or digest of the bucket's listing, that the engines load. It is pinned with the"
        " sizes.",
    )
    kv_cache: KvCacheStatus | None = Field(None, description="KV cache capacity, once a ready engine has reported it.")
    network: NetworkStatus | None = Field(
        None, description="Network between the nodes of an engine, as the log of a start reports it."
    )
    unread_metrics: int = _optional(0, "Ready engines whose metrics the operator cannot read.")


class StartupStep(StrEnum):
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
    minutes_left: int | None = Field(
        None, description="Minutes until all weights are loaded, at the speed when it reached `percent`."
    )


class AdapterPhase(StrEnum):
    COPYING = "Copying"
    """Its files are copied to the claim and checked."""
    REFUSED = "Refused"
    """Its files cannot be used. Former ones stay in use."""
    LOADING = "Loading"
    """Not all engines have loaded it yet."""
    READY = "Ready"
    """All ready engines have it, and routers advertise it."""
    FAILED = "Failed"
    """An engine could not load it. Routers do not advertise it."""


class AdapterStatus(_StatusModel):
    name: str = Field(max_length=MAX_NAME, description="Name in the OpenAI API.")
    phase: AdapterPhase = Field(
        description="`Copying` to the claim, `Refused` for its files, `Loading` by engines, `Ready`, or `Failed` there."
    )
    engines: str = _optional("", "Ready engines that have loaded it, and all ready engines, for example `2/3`.")
    message: str = _optional("", "The cause, and what helps; absent if nothing is wrong.", max_length=1024)
    since: str | None = Field(
        None, description="Since when it has this phase.", json_schema_extra={"format": "date-time"}
    )


class LoadStatus(_StatusModel):
    prompt_tokens: int = Field(description="Mean tokens of a prompt.")
    answer_tokens: int = Field(description="Mean tokens of an answer.")
    cached: float = Field(0.0, description="Part of the prompts' tokens that the prefix cache has, 0 to 1.")
    prompt_spread: float = Field(
        1.0, description="Variance of a prompt's computed tokens, divided by the square of their mean."
    )
    answer_spread: float = Field(0.0, description="The same of the tokens of an answer.")
    accepted: float | None = Field(
        None, description="Part of the tokens that `engine.speculative` guesses and the model accepts, 0 to 1."
    )


class AutoscalingStatus(_StatusModel):
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
    attainable: float | None = Field(
        None,
        description="Percentage of the requests that would keep the objective alone in an engine; absent until"
        " measured.",
    )
    kept: float | None = Field(
        None, description="Percentage of the requests that kept it in engines; absent until measured."
    )
    load: LoadStatus | None = Field(
        None, description="Mean lengths of the requests, for which the target is computed; absent until measured."
    )


class RoleStatus(_StatusModel):
    """A role of several: engines with a plan and a number of their own."""

    name: str = Field(max_length=63, description="Name of the role.")
    replicas: int = Field(0, description="Number of its engines.")
    ready_replicas: int = Field(0, description="Number of its ready engines.")
    plan: PlanStatus | None = Field(None, description="Sizes that they run with.")
    engine: EngineStatus | None = Field(None, description="Engine that they run.")
    autoscaling: AutoscalingStatus | None = Field(None, description="Last decision about their number.")


class OperatorStatus(_StatusModel):
    account: str = Field(max_length=512, description="User name of its ServiceAccount.")
    since: str = Field(
        max_length=64,
        description="When its Lease was created. Of two operators, the older one manages the InferenceDeployment.",
        json_schema_extra={"format": "date-time"},
    )


def _with_operator_last(schema: Manifest) -> None:
    schema["properties"]["operator"] = schema["properties"].pop("operator")


class ResourceStatus(_StatusModel):
    model_config = ConfigDict(json_schema_extra=_with_operator_last)

    observed_generation: int = Field(
        NEVER_OBSERVED, description="Generation of the spec that this status was computed from."
    )
    conditions: tuple[Condition, ...] = Field(
        (),
        max_length=16,
        description="Conditions; kstatus reads Ready, Reconciling and Stalled.",
        json_schema_extra=list_map("type"),
    )
    reason: str = Field(
        "", max_length=64, description="Reason of the condition that matters most: of what is wrong, else of Ready."
    )
    message: str = Field(
        "", max_length=MAX_MESSAGE_LENGTH, description="Message of that condition: the cause, and what helps."
    )
    operator: OperatorStatus | None = Field(None, description="Operator that wrote this status.")

    def condition(self, wanted: ConditionType) -> Condition | None:
        return next((c for c in self.conditions if c.type == wanted), None)

    def dump(self) -> Manifest:
        """The status as JSON for the API server: camelCase, without unset fields."""
        fields = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {name: value for name, value in fields.items() if value != "" and (value != [] or name == "conditions")}


class Status(ResourceStatus):
    """The observed state of an InferenceDeployment."""

    model: str = Field("", max_length=1024, description="Name of the model, without scheme and organisation.")
    gpus: str = Field("", max_length=128, description="GPUs of one engine, for example `4xH100-80GB`; `CPU` without.")
    url: str | None = Field(None, description="URL of the OpenAI API inside the cluster.")
    external_urls: tuple[str, ...] = Field(
        (),
        max_length=MAX_EXTERNAL_URLS,
        description="URLs of the OpenAI API outside the cluster, once they have an address.",
    )
    replicas: int = Field(0, description="Number of engines.")
    ready_replicas: int = Field(0, description="Number of ready engines.")
    ready: str | None = Field(None, description="Ready and desired engines, for example `1/2`.")
    selector: str | None = Field(
        None, description="Label selector of one pod of each engine, used by `/scale`; of groups, that of the leaders."
    )
    plan: PlanStatus | None = Field(None, description="Sizes that the engines run with.")
    engine: EngineStatus | None = Field(None, description="Engine that runs.")
    roles: tuple[RoleStatus, ...] = Field(
        (),
        max_length=MAX_ROLES,
        description="All roles, if there are several. Then `plan`, `engine`, `autoscaling` and the numbers of engines"
        " are those of the role that `/scale` is about.",
        json_schema_extra=BY_NAME,
    )
    startup: StartupStatus | None = Field(None, description="Progress of a start; absent while no engine starts.")
    autoscaling: AutoscalingStatus | None = Field(None, description="Last decision about the number of engines.")
    adapters_ready: str = Field("", description="Adapters that are ready, and all adapters, for example `2/3`.")
    adapters: tuple[AdapterStatus, ...] = Field(
        (),
        max_length=MAX_ADAPTERS,
        description="Adapters of the model.",
        json_schema_extra=BY_NAME,
    )

    @property
    def every_role(self) -> tuple[RoleStatus, ...]:
        """All roles; one without a name where there is only one."""
        return self.roles or (self.of_role("", has_scale=True),)

    def of_role(self, name: str, *, has_scale: bool) -> RoleStatus:
        """What the status says about a role: the status itself is about the one that has `/scale`."""
        own = {"plan": self.plan, "engine": self.engine, "autoscaling": self.autoscaling} if has_scale else {}
        return next((role for role in self.roles if role.name == name), RoleStatus(name=name, **own))
