"""The operator's settings, read at its start from `INFERENCE_OPERATOR_*` environment variables."""

import json
import lzma
import re
from datetime import timedelta
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError, ValidationInfo, field_validator
from pydantic.functional_validators import BeforeValidator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from inference_operator.api.administrator_policy import AdministratorPolicy
from inference_operator.api.duration import duration
from inference_operator.api.engine_kind import EngineKind
from inference_operator.api.hardware import Device
from inference_operator.api.pod_defaults import EngineDefaults, RouterDefaults
from inference_operator.api.prometheus import PrometheusSettings
from inference_operator.api.rollouts import RolloutSettings
from inference_operator.api.validation import Labels

PREFIX = "INFERENCE_OPERATOR_"
_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""A DNS label (RFC 1123), the format of namespace names."""
_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
"""A DNS subdomain, the format of most object names."""


def _separated(value: object) -> object:
    """Split comma-separated text, the format of lists in environment variables."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _json(value: object) -> object:
    """Parse JSON text, the format of objects in environment variables; empty text is an empty object."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value or "{}")
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from error


def _compressed_file(value: object) -> object:
    """Read the archive that a path names, as a ConfigMap holds it: compressed."""
    if not isinstance(value, str):
        return value
    try:
        return lzma.compress(Path(value).read_bytes()) if value else b""
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error


def in_registry(image: str, registry: str) -> str:
    """An image reference with another registry; tag and digest stay. Without a registry nothing changes.

    The first part of a reference is a registry if it has a dot or a colon, or is `localhost`; a reference without one
    is of Docker Hub (distribution/reference v0.6.0, normalize.go, splitDockerDomain).

    Examples:
        >>> in_registry("docker.io/vllm/vllm-openai:v0.32.0", "registry.example/hub")
        'registry.example/hub/vllm/vllm-openai:v0.32.0'
        >>> in_registry("vllm/vllm-openai@sha256:0123", "registry.example"), in_registry("busybox:1", "")
        ('registry.example/vllm/vllm-openai@sha256:0123', 'busybox:1')
    """
    if not registry:
        return image
    first, _, rest = image.partition("/")
    named = rest and ("." in first or ":" in first or first == "localhost")
    return f"{registry}/{rest if named else image}"


LongOption = Annotated[str, StringConstraints(pattern=r"^--[a-z0-9][a-z0-9-]*$")]
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_./]*=[-A-Za-z0-9_.]*$")]
HeaderPattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}\*?$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


DECLARED_GPUS = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_. ]{0,62}:[1-9][0-9]?(@[0-9]{1,6}(\.[0-9]{1,4})?)?")
"""Kind or product of a GPU, number per node, and optionally the price of one GPU per hour."""
DeclaredGpus = Annotated[str, StringConstraints(pattern=f"^({DECLARED_GPUS.pattern})$")]


NODE_LABEL = re.compile(
    r"[A-Za-z0-9][-A-Za-z0-9_. ]{0,62}:[A-Za-z0-9][-A-Za-z0-9_./]{0,316}=[A-Za-z0-9][-A-Za-z0-9_.]{0,62}"
)
"""Kind of GPU, and a node label with the value that names it."""
NodeLabel = Annotated[str, StringConstraints(pattern=f"^({NODE_LABEL.pattern})$")]


class Capacity(StrEnum):
    """Whether nodes can be added to the cluster."""

    ELASTIC = "Elastic"
    FIXED = "Fixed"


class ModelInspection(StrEnum):
    """When a model of a hub is inspected."""

    ALWAYS = "Always"
    WHEN_UNKNOWN = "WhenUnknown"


class PodUsers(StrEnum):
    """Who chooses the user and the groups of the pods that the operator makes."""

    FIXED = "Fixed"
    FROM_PLATFORM = "FromPlatform"


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    image_registry: str = Field(
        "", pattern=r"^([A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]+)?(/[a-z0-9][-a-z0-9._/]*[a-z0-9])?)?$"
    )
    """Registry, with an optional path, that replaces the registry of the images below. Tags and digests stay."""

    gpu_engine_image: str = Field("docker.io/vllm/vllm-openai:v0.32.0", validate_default=True)
    """Image of engines on GPUs; `spec.engine.image` overrides it."""

    cpu_engine_image: str = Field("docker.io/vllm/vllm-openai-cpu:v0.32.0-x86_64", validate_default=True)
    """Image of engines on CPUs; `spec.engine.image` overrides it."""

    engine_images: Annotated[dict[EngineKind, dict[Device, str]], NoDecode, BeforeValidator(_json)] = {}
    """Images of engines of other kinds than vLLM and Transformers, which share the two above: by kind and device, as
    JSON. The default of a kind applies where none is named."""

    operator_image: str = Field("ghcr.io/inference-operator/operator:0.1.0", validate_default=True)
    """Image of the operator; inspection Jobs run it too."""

    job_program: Annotated[bytes, BeforeValidator(_compressed_file)] = Field(b"", repr=False)
    """Program of the Jobs, where the operator's image is the official one of Python: the modules that Jobs run and
    the requirements.txt of their libraries. Its variable names a tar archive. Empty: their image has it."""

    program_environment: Annotated[dict[VariableName, str], NoDecode, BeforeValidator(_json)] = {}
    """Environment variables of the containers that install that program, such as PIP_INDEX_URL, as JSON."""

    router_image: str = Field("ghcr.io/inference-operator/router:0.1.0", validate_default=True)
    """Image of the routers; the tests use the HAProxy binary from it."""

    verifier_image: str = Field("ghcr.io/sigstore/cosign/cosign:v3.1.3", validate_default=True)
    """Image that starts cosign, for `spec.model.verify`."""

    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """Pull policy of the engine and router containers."""

    pod_users: PodUsers = PodUsers.FIXED
    """Fixed: engines run as user 2000 and group 0, routers as 99. FromPlatform: pods name no user and no group; the
    platform must set them, as OpenShift's SCC restricted-v2 does."""

    common_labels: Annotated[Labels, NoDecode, BeforeValidator(_json)] = {}
    """Labels of every object and pod that the operator makes."""

    engine_defaults: Annotated[EngineDefaults, NoDecode, BeforeValidator(_json)] = EngineDefaults()
    """Defaults of engine pods and inspection Jobs, as JSON; a resource's own values of the same keys replace them."""

    router_defaults: Annotated[RouterDefaults, NoDecode, BeforeValidator(_json)] = RouterDefaults()
    """Defaults of router pods, as JSON; a resource's own values of the same keys replace them."""

    rollouts: Annotated[RolloutSettings, NoDecode, BeforeValidator(_json)] = RolloutSettings()
    """How a change of the owner's settings reaches all InferenceDeployments, as JSON: how many replace pods at a time,
    and which one goes first."""

    cluster_domain: str = Field("cluster.local", pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    """DNS domain of the cluster; routers resolve engines in it."""

    listen_address: Literal["::", "0.0.0.0"] = "::"  # noqa: S104 - in pods of their own
    """Address on which engines listen: `::` for IPv6 and IPv4, or `0.0.0.0` for IPv4 only, for nodes whose kernel was
    booted without IPv6 (`ipv6.disable=1`)."""

    dns_staleness_seconds: int = Field(35, ge=1, le=300)
    """Seconds until no router uses a pod that was removed from DNS; a terminating engine serves for this long. Records
    of clusters live for up to 30 s, however many caches they pass (docs/how-to/platforms.md)."""

    resync_seconds: float = Field(600.0, ge=1.0)
    """Seconds between two complete lists of all objects (resync), which correct events that a watch missed."""

    scrape_seconds: float = Field(15.0, ge=1.0, le=60.0)
    """Seconds between two scrapes of an engine that may have stalled, or that has requests which another engine could
    serve. Other engines, and routers, are scraped at every eighth interval. `bench/scrape.py` measures the cost."""

    stall_seconds: float = Field(300.0, ge=10.0)
    """Delete an engine pod that has requests but made no progress for this many seconds. vLLM gives one
    scheduler iteration of several processes as long (0.32.0, vllm/envs.py, VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS)."""

    no_progress_seconds: float = Field(30.0, ge=2.0, validate_default=True)
    """Send no new requests to an engine that has requests but made no progress for this many seconds, while another
    engine makes progress. Must be less than `stall_seconds`. Twice `scrape_seconds`: three samples show it."""

    lease_namespace: str = Field("inference-operator-system", pattern=_LABEL)
    """Namespace of the operator: it has the Lease for leader election, and NetworkPolicies allow it to read metrics."""

    lease_name: str = Field("inference-operator", pattern=_NAME)
    """Name of the Lease; of all operators with the same Lease, one is the leader."""

    service_account: str = Field("", pattern=rf"^$|{_NAME}")
    """ServiceAccount of the operator, by which two operators know each other. Empty: the Lease's name."""

    lease_duration_seconds: int = Field(30, ge=2, le=600)
    """Seconds after which another process may take a Lease that was not renewed; the maximum delay after a crash."""

    lease_renew_deadline_seconds: float = Field(20.0, gt=0.0)
    """Seconds after the last renewal at which the leader stops and exits."""

    lease_renew_seconds: float = Field(5.0, gt=0.0, validate_default=True)
    """Seconds between two renewals of the Lease."""

    write_timeout_seconds: float = Field(8.0, gt=0.0, validate_default=True)
    """Timeout of a write in seconds. Added to the renewal deadline it must be less than the Lease duration."""

    namespaces: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_separated)] = ()
    """Namespaces to watch; empty means all namespaces."""

    network_policies: bool = False
    """Whether to create NetworkPolicies for engines and routers; these deny all traffic that they do not list."""

    network_policies_with_keys: bool = True
    """Whether to create a NetworkPolicy for the engines of a resource with `router.keys` in any case, and for engines
    over several pods."""

    engine_keys: bool = True
    """Whether engines of a resource with `router.keys` ask for a key of their routers, which is in a Secret."""

    metrics_from: Annotated[tuple[Label, ...], NoDecode, BeforeValidator(_separated)] = ()
    """Labels, as `key=value`, of namespaces that NetworkPolicies allow to read metrics."""

    allowed_arguments: Annotated[tuple[LongOption, ...], NoDecode, BeforeValidator(_separated)] = ()
    """Engine arguments that users may set although they can load code, read files or open endpoints."""

    allowed_environment: Annotated[tuple[VariableName, ...], NoDecode, BeforeValidator(_separated)] = ()
    """Environment variables that users may set although they can load code, read files or open endpoints."""

    forwarded_headers: Annotated[tuple[HeaderPattern, ...], NoDecode, BeforeValidator(_separated)] = ()
    """Headers of requests that routers send to engines beside those that they know; a `*` at the end stands for any
    rest of the name."""

    policy: Annotated[AdministratorPolicy, NoDecode, BeforeValidator(_json)] = AdministratorPolicy()
    """What InferenceDeployments may name, as JSON: sources of models, registries, hubs and S3 endpoints; and how many
    GPUs one may have. The chart writes the same values into the parameters of the admission policy."""

    gpu_offers: Annotated[tuple[DeclaredGpus, ...], NoDecode, BeforeValidator(_separated)] = ()
    """GPUs that nodes have or can have, as `KIND:GPUS_PER_NODE[@PRICE]`: for node pools without nodes, and for all
    nodes if the operator cannot list nodes. With prices (of one GPU per hour), sizing prefers the cheapest GPUs."""

    gpu_node_labels: Annotated[tuple[NodeLabel, ...], NoDecode, BeforeValidator(_separated)] = ()
    """Node labels that name a kind of GPU, as `KIND:LABEL=VALUE`, beside those that the operator knows of platforms.
    A label must be one that the node pool itself has, so that a node autoscaler can act before a node exists."""

    prometheus: Annotated[PrometheusSettings, NoDecode, BeforeValidator(_json)] = PrometheusSettings()
    """Where KEDA queries Prometheus, and with which authentication, as JSON."""

    traces_endpoint: str = Field("", pattern=r"^(https?://[^\s/]{1,253}(/[^\s]{0,250})?)?$")
    """URL of an OpenTelemetry collector to which engines send spans; arguments of a resource may name another."""

    capacity: Capacity = Capacity.ELASTIC
    """Elastic: nodes can be added, so an engine may wait for one. Fixed: a model that fits on no node is rejected."""

    surge_wait_seconds: int = Field(900, ge=30, le=86400)
    """Elastic: seconds that a rollout waits for a node for the new engine before it ends the last ready engine."""

    single_engine_budgets: bool = True
    """Whether the only engine and the only router of a service refuse their evictions until a successor is ready
    (`spec.scheduling.evictionWait`). Node autoscalers do not remove a node whose pods cannot be evicted."""

    model_inspection: ModelInspection = ModelInspection.ALWAYS
    """Always: a Job reads the files of every model before it is sized; the catalogue is used where the hub cannot be
    asked. WhenUnknown: a model in the catalogue is sized from there without a Job."""

    read_logs: bool = True
    """Whether to read the logs of failing engines and routers for the cause; requires the right to `pods/log`."""

    log_format: Literal["json", "text"] = "json"
    """Log format: one JSON object per line, or text."""

    http_port: int = Field(8080, ge=0, le=65535)
    """Port of `/healthz`, `/readyz` and `/metrics`; 0 selects a free port."""

    @property
    def uses_network_policies(self) -> bool:
        """Whether there can be NetworkPolicies of the operator's making."""
        return self.network_policies or self.network_policies_with_keys

    @property
    def surge_wait(self) -> timedelta | None:
        """How long a rollout waits for a node; None where no node can be added."""
        return timedelta(seconds=self.surge_wait_seconds) if self.capacity is Capacity.ELASTIC else None

    @property
    def longest_eviction_wait(self) -> timedelta:
        """The administrator's bound, which a wait by default keeps too."""
        most = self.policy.eviction_wait.most
        return duration(most) if most else timedelta.max

    @field_validator("no_progress_seconds")
    @classmethod
    def _before_deletion(cls, value: float, info: ValidationInfo) -> float:
        """An engine gets no new requests before it is deleted."""
        stall = info.data.get("stall_seconds", inf)
        if value >= stall:
            raise ValueError(f"must be less than the seconds after which a stalled engine is deleted, {stall:g}")
        return value

    @field_validator("gpu_engine_image", "cpu_engine_image", "operator_image", "router_image", "verifier_image")
    @classmethod
    def _in_registry(cls, value: str, info: ValidationInfo) -> str:
        return in_registry(value, info.data.get("image_registry", ""))

    @field_validator("engine_images")
    @classmethod
    def _own_images(cls, value: dict[EngineKind, dict[Device, str]]) -> dict[EngineKind, dict[Device, str]]:
        others = {EngineKind.AUTO, EngineKind.VLLM, EngineKind.TRANSFORMERS} & value.keys()
        if others:
            raise ValueError(f"has {min(others)}, whose images are those of vLLM")
        return value

    def engine_image(self, kind: EngineKind, device: Device, default: str) -> str:
        """The image of engines of a kind on a device, in the administrator's registry; by default `default`."""
        return in_registry(self.engine_images.get(kind, {}).get(device, default), self.image_registry)

    @field_validator("lease_renew_seconds")
    @classmethod
    def _renew_in_time(cls, value: float, info: ValidationInfo) -> float:
        """Leave time for a second attempt before the deadline if a renewal fails."""
        deadline = info.data.get("lease_renew_deadline_seconds", inf)
        if 2 * value > deadline:
            raise ValueError(f"must be at most half of the renewal deadline, {deadline:g}")
        return value

    @field_validator("write_timeout_seconds")
    @classmethod
    def _write_in_time(cls, value: float, info: ValidationInfo) -> float:
        """All writes of a leader must end before another process can take the Lease."""
        duration = info.data.get("lease_duration_seconds", inf)
        deadline = info.data.get("lease_renew_deadline_seconds", 0.0)
        if value + deadline >= duration:
            raise ValueError(
                f"must be less than the Lease's duration minus its renewal deadline, {duration:g} - {deadline:g}"
            )
        return value


def setting_errors(error: ValidationError) -> list[str]:
    """The errors in the environment variables, one line per variable or key of its JSON."""
    return [_line(problem["loc"], problem["msg"]) for problem in error.errors()]


def _line(location: tuple[int | str, ...], message: str) -> str:
    """One error: the variable, the path of the key in its JSON, and what is wrong.

    Examples:
        >>> _line(("engine_defaults", "scheduling", "tolerations", 0, "effect"), "Input should be 'NoExecute'")
        "INFERENCE_OPERATOR_ENGINE_DEFAULTS: scheduling.tolerations[0].effect: Input should be 'NoExecute'"
    """
    name, *inside = (str(part) if isinstance(part, str) else f"[{part}]" for part in location)
    path = ".".join(inside).replace(".[", "[")
    return f"{PREFIX}{name.upper()}: {f'{path}: ' if path else ''}{message}"
