"""The operator's own settings, read once from `INFERENCE_OPERATOR_*` environment variables."""

import re
from enum import StrEnum
from math import inf
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError, ValidationInfo, field_validator
from pydantic.functional_validators import BeforeValidator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "INFERENCE_OPERATOR_"
_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""A DNS label (RFC 1123), as namespaces are named."""
_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
"""A DNS name, as most objects are named."""


def _separated(value: object) -> object:
    """Split a comma separated text into its parts, as environment variables carry lists."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


LongOption = Annotated[str, StringConstraints(pattern=r"^--[a-z0-9][a-z0-9-]*$")]
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_./]*=[-A-Za-z0-9_.]*$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


DECLARED_GPUS = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_. ]{0,62}:[1-9][0-9]?(@[0-9]{1,6}(\.[0-9]{1,4})?)?")
"""Kind or product of a GPU, how many of them a node has, and what one costs for an hour."""
DeclaredGpus = Annotated[str, StringConstraints(pattern=f"^({DECLARED_GPUS.pattern})$")]


class Capacity(StrEnum):
    """Whether nodes may come that are not there yet."""

    ELASTIC = "Elastic"
    FIXED = "Fixed"


class Settings(BaseSettings):
    """What a platform engineer decides once for all InferenceDeployments.

    Examples:
        >>> Settings(dns_staleness_seconds=20).dns_staleness_seconds
        20
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    gpu_engine_image: str = "docker.io/vllm/vllm-openai:v0.32.0"
    """Image of engines on GPUs, unless `spec.engine.image` names another."""

    cpu_engine_image: str = "docker.io/vllm/vllm-openai-cpu:v0.32.0-x86_64"
    """Image of engines on CPUs, unless `spec.engine.image` names another."""

    operator_image: str = "ghcr.io/inference-operator/operator:0.1.0"
    """Image of the operator itself, which inspects models in Jobs."""

    router_image: str = "ghcr.io/inference-operator/router:0.1.0"
    """Image of the routers; the tests run the HAProxy that it ships."""

    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """Pull policy of the engine and router containers."""

    cluster_domain: str = Field("cluster.local", pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    """The cluster's DNS domain, in which routers look engines up."""

    dns_staleness_seconds: int = Field(15, ge=1, le=300)
    """Seconds until every router has forgotten a pod that left DNS; engines wait this long before they stop."""

    resync_seconds: float = Field(600.0, ge=1.0)
    """Seconds between two complete listings, which repair whatever a watch missed."""

    scrape_seconds: float = Field(15.0, ge=1.0, le=60.0)
    """Seconds between two looks at an engine that seems to stand still; all others are looked at every eighth time.
    What that costs is what `bench/scrape.py` prints."""

    stall_seconds: float = Field(300.0, ge=10.0)
    """Seconds for which an engine may have work and make no progress before its pod is deleted. vLLM itself gives one
    step of several processes as long (0.32.0, vllm/envs.py, VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS)."""

    lease_namespace: str = Field("inference-operator-system", pattern=_LABEL)
    """The operator's own namespace: that of the Lease that one process at a time holds, and from which NetworkPolicies
    let it read metrics."""

    lease_name: str = Field("inference-operator", pattern=_NAME)
    """The name of that Lease; operators that share it take turns."""

    lease_duration_seconds: int = Field(30, ge=2, le=600)
    """Seconds after which a Lease that is not renewed may be taken; how long a crash delays changes at most."""

    lease_renew_deadline_seconds: float = Field(20.0, gt=0.0)
    """Seconds after its last renewal at which the holder stops to act and ends."""

    lease_renew_seconds: float = Field(5.0, gt=0.0, validate_default=True)
    """Seconds between two renewals."""

    write_timeout_seconds: float = Field(8.0, gt=0.0, validate_default=True)
    """Seconds after which a write counts as failed. Together with the renewal deadline less than the Lease lasts."""

    namespaces: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_separated)] = ()
    """The namespaces to serve; none means the whole cluster."""

    network_policies: bool = False
    """Whether engines and routers get NetworkPolicies; whatever these do not name then cannot reach them."""

    metrics_from: Annotated[tuple[Label, ...], NoDecode, BeforeValidator(_separated)] = ()
    """Labels of the namespaces from which NetworkPolicies let metrics be read too, as `key=value`."""

    allowed_arguments: Annotated[tuple[LongOption, ...], NoDecode, BeforeValidator(_separated)] = ()
    """Arguments of the engine that users may pass although they load code, read files or open endpoints."""

    allowed_environment: Annotated[tuple[VariableName, ...], NoDecode, BeforeValidator(_separated)] = ()
    """Environment variables of the engine that users may set although they do so."""

    gpu_offers: Annotated[tuple[DeclaredGpus, ...], NoDecode, BeforeValidator(_separated)] = ()
    """GPUs that nodes have or could have, as `KIND:GPUS_PER_NODE`, with `@PRICE` of one for an hour where the cheapest
    is to be taken: pools without nodes, and all there are where the operator cannot see nodes."""

    capacity: Capacity = Capacity.ELASTIC
    """Elastic: nodes can be added, so an engine may wait for one. Fixed: what no node could hold is refused."""

    read_logs: bool = True
    """Whether the logs of engines and routers that fail are read, to tell why; it needs the right to `pods/log`."""

    log_format: Literal["json", "text"] = "json"
    """One JSON object a line, or text for people."""

    http_port: int = Field(8080, ge=0, le=65535)
    """Port of `/healthz`, `/readyz` and `/metrics`; 0 picks a free one."""

    @field_validator("lease_renew_seconds")
    @classmethod
    def _renew_in_time(cls, value: float, known: ValidationInfo) -> float:
        """Give a renewal that fails a second attempt before the deadline."""
        deadline = known.data.get("lease_renew_deadline_seconds", inf)
        if 2 * value > deadline:
            raise ValueError(f"must be at most half of the renewal deadline, {deadline:g}")
        return value

    @field_validator("write_timeout_seconds")
    @classmethod
    def _write_in_time(cls, value: float, known: ValidationInfo) -> float:
        """Let every write of a holder be over before another may hold the Lease."""
        duration = known.data.get("lease_duration_seconds", inf)
        deadline = known.data.get("lease_renew_deadline_seconds", 0.0)
        if value + deadline >= duration:
            raise ValueError(
                f"must be less than the Lease's duration minus its renewal deadline, {duration:g} - {deadline:g}"
            )
        return value


def complaints(error: ValidationError) -> list[str]:
    """What is wrong with the environment, one line a variable."""
    names = ("_".join(str(part) for part in problem["loc"]).upper() for problem in error.errors())
    return [f"{PREFIX}{name}: {problem['msg']}" for name, problem in zip(names, error.errors(), strict=True)]
