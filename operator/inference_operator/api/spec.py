"""`spec` of an InferenceDeployment: what users write, with the rules that the API server enforces.

Every model becomes a part of the CRD (`crd.py`); `cel` adds rules with messages for people.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from inference_operator.api.duration import Within

MAX_NAME_LENGTH = 55
"""A Service's name has at most 63 characters (DNS-1035 label); the longest suffix of a child is `-engines`."""

MAX_REPLICAS = 256
"""Routers find engines by A records of 16 bytes in one answer of at most 8,192 (`router/haproxy.cfg.j2`)."""

DRAIN_TIMEOUT = timedelta(minutes=5)
"""Time for an answer of 8,192 tokens at 30 tokens/s, which is 273 s; and, with what comes before and after it, below
the 600 s that a node autoscaler gives the pods of a node that it removes (kubernetes/autoscaler,
cluster-autoscaler/FAQ.md, `max-graceful-termination-sec`). Idle pods do not wait."""

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
"""Kubernetes quantities without signs and exponents (apimachinery, pkg/api/resource)."""


def cel(*rules: tuple[str, str]) -> dict[str, Any]:
    """CEL rules (rule, message) for the schema of a model or field."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


class _Part(BaseModel):
    """A part of the spec: camelCase outside, immutable inside, and no unknown fields."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_alias=True, validate_by_name=True, frozen=True, extra="forbid"
    )


class Device(StrEnum):
    """What an engine computes on."""

    GPU = "GPU"
    CPU = "CPU"


class ModelSpec(_Part):
    """Which model is served, and under which name."""

    source: str = Field(
        min_length=1,
        max_length=1024,
        description=(
            "Where the model is: `hf://org/name` (Hugging Face hub), `pvc://claim/path` (a folder in a"
            " PersistentVolumeClaim of this namespace) or `oci://image-reference` (an OCI image mounted as a volume,"
            " with the model's files at its root). Change: rolling restart."
        ),
        json_schema_extra=cel(
            (
                "self.matches('^(hf|pvc|oci)://[^\\\\s]+$')",
                "source must begin with `hf://`, `pvc://` or `oci://`, for example `hf://Qwen/Qwen3-8B`",
            )
        ),
    )
    served_name: str | None = Field(
        None,
        min_length=1,
        max_length=253,
        description=(
            "Name of the model in the OpenAI API. Default: the name of this resource. Change: rolling restart."
        ),
        json_schema_extra=cel(
            (
                "self.matches('^[A-Za-z0-9][-A-Za-z0-9._/:]*$')",
                (
                    "servedName must begin with a letter or digit and may contain letters, digits and `-._/:`, "
                    "for example `qwen3-8b`"
                ),
            )
        ),
    )


class KeySelector(_Part):
    """One key of a Secret or ConfigMap of this namespace."""

    name: str = Field(min_length=1, max_length=253, description="Name of the object.")
    key: str = Field(min_length=1, max_length=253, description="Key in its data.")


class EnvironmentSource(_Part):
    """Where the value of an environment variable comes from."""

    secret_key_ref: KeySelector | None = Field(None, description="A key of a Secret.")
    config_map_key_ref: KeySelector | None = Field(None, description="A key of a ConfigMap.")

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "has(self.secretKeyRef) != has(self.configMapKeyRef)",
                "valueFrom must have exactly one of `secretKeyRef` and `configMapKeyRef`",
            )
        )
    )

    @model_validator(mode="after")
    def _one_source(self) -> "EnvironmentSource":
        if (self.secret_key_ref is None) == (self.config_map_key_ref is None):
            raise ValueError("must have exactly one of `secretKeyRef` and `configMapKeyRef`")
        return self


class EnvironmentVariable(_Part):
    """An environment variable of the engine."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        min_length=1, max_length=256, description="Name of the variable."
    )
    value: str | None = Field(None, max_length=8192, description="Its value.")
    value_from: EnvironmentSource | None = Field(None, description="Where its value comes from.")

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "has(self.value) != has(self.valueFrom)",
                "an environment variable must have exactly one of `value` and `valueFrom`",
            )
        )
    )

    @model_validator(mode="after")
    def _one_value(self) -> "EnvironmentVariable":
        if (self.value is None) == (self.value_from is None):
            raise ValueError("must have exactly one of `value` and `valueFrom`")
        return self


def _text(value: object) -> object:
    """YAML reads `cpu: 2` as a number; a quantity is text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class _Quantity:
    """Marks a quantity: text here, an integer or text in the CRD."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:  # noqa: ANN401 - pydantic's protocol
        from pydantic_core import core_schema  # noqa: PLC0415 - only the schema's construction needs it

        return core_schema.no_info_before_validator_function(
            _text, core_schema.str_schema(pattern=QUANTITY, max_length=32)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:  # noqa: ANN401 - pydantic's protocol
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": 32,
            "pattern": QUANTITY,
        }


Quantity = Annotated[str, _Quantity]
ResourceName = Annotated[str, StringConstraints(min_length=1, max_length=253)]


class ResourcesSpec(_Part):
    """Compute resources of one engine, beside its GPUs."""

    requests: dict[ResourceName, Quantity] = Field(
        default_factory=dict,
        max_length=16,
        description="What the scheduler reserves. Default: named values per device.",
    )
    limits: dict[ResourceName, Quantity] = Field(
        default_factory=dict, max_length=16, description="What the kubelet enforces. Default: GPUs only."
    )


def _unique_names(variables: tuple[EnvironmentVariable, ...]) -> tuple[EnvironmentVariable, ...]:
    if len({v.name for v in variables}) != len(variables):
        raise ValueError("must not name a variable twice")
    return variables


class EngineSpec(_Part):
    """The engine that computes answers."""

    image: str | None = Field(
        None,
        min_length=1,
        max_length=512,
        description=(
            "Container image of the engine. Default: pinned by the operator's release. Change: rolling restart."
        ),
        json_schema_extra=cel(
            (
                "!self.matches('\\\\s')",
                "image must be an image reference without spaces, for example `docker.io/vllm/vllm-openai:v0.32.0`",
            )
        ),
    )
    args: tuple[Annotated[str, StringConstraints(min_length=1, max_length=4096)], ...] = Field(
        (),
        max_length=64,
        description=(
            "More arguments of `vllm serve`, for example `--max-model-len=8192`. Arguments that the operator sets"
            " itself are refused with the field to use instead. Change: rolling restart."
        ),
    )
    env: Annotated[tuple[EnvironmentVariable, ...], AfterValidator(_unique_names)] = Field(
        (),
        max_length=64,
        description="More environment variables of the engine. Change: rolling restart.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    resources: ResourcesSpec = Field(
        ResourcesSpec(),
        description="CPU, memory and ephemeral storage of one engine; replaces the computed values key by key."
        " Change: rolling restart.",
    )


class HardwareSpec(_Part):
    """What engines run on."""

    device: Device = Field(Device.GPU, description="`GPU` or `CPU`. Default: `GPU`. Change: rolling restart.")


class ParallelismSpec(_Part):
    """How one engine spreads over GPUs."""

    tensor: int = Field(
        1,
        ge=1,
        le=64,
        description=(
            "Tensor parallel size, which is the number of GPUs of one engine. Default: 1. Change: rolling restart."
        ),
    )


class RouterSpec(_Part):
    """The load balancer in front of the engines."""

    replicas: int = Field(2, ge=1, le=16, description="Number of routers. Default: 2. Change: in place.")


class RolloutSpec(_Part):
    """How a change of the engines is carried out."""

    progress_deadline: Annotated[timedelta, Within("1m", "48h", "30m")] | None = Field(
        None,
        description=(
            "How long engines or routers may make no progress before the condition Stalled says so, for example"
            " `30m`. Default: `startupTimeout` and 5 minutes. Change: in place."
        ),
    )


class Spec(_Part):
    """What an InferenceDeployment asks for."""

    model: ModelSpec = Field(description="Which model is served.")
    engine: EngineSpec = Field(EngineSpec(), description="The engine that computes answers.")
    hardware: HardwareSpec = Field(HardwareSpec(), description="What engines run on.")
    parallelism: ParallelismSpec = Field(ParallelismSpec(), description="How one engine spreads over GPUs.")
    replicas: int = Field(
        1,
        ge=0,
        le=MAX_REPLICAS,
        description="Number of engines; `kubectl scale` and autoscalers write it through `/scale`. Change: in place.",
        json_schema_extra={"default": 1},
    )
    router: RouterSpec = Field(RouterSpec(), description="The load balancer in front of the engines.")
    rollout: RolloutSpec = Field(RolloutSpec(), description="How a change of the engines is carried out.")
    startup_timeout: Annotated[timedelta, Within("1m", "24h", "45m")] | None = Field(
        None,
        description=(
            "How long an engine may take from its start until it answers before it is started again, for example"
            " `45m`. Default: `30m`. Change: rolling restart."
        ),
    )
    drain_timeout: Annotated[timedelta, Within("1s", "1h", "5m")] = Field(
        DRAIN_TIMEOUT,
        description=(
            "How long an engine or router that is to stop may go on with the requests that it has, for example"
            " `20m`; without requests it stops at once. Default: `5m`. Change: rolling restart."
        ),
    )
