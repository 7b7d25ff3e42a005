"""A ModelGateway: one address for all models of a namespace, where the `model` of a request chooses."""

from datetime import timedelta
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from inference_operator.api.adapters import SERVED_NAME
from inference_operator.api.container import BY_NAME
from inference_operator.api.duration import Within
from inference_operator.api.reasons import ConditionType
from inference_operator.api.resource import ResourceApi, column
from inference_operator.api.router import ProxySpec
from inference_operator.api.router_exposure import HEADER_NAME
from inference_operator.api.spec import DRAIN_TIMEOUT
from inference_operator.api.status import MAX_EXTERNAL_URLS, ResourceStatus
from inference_operator.api.validation import CelRules, ObjectName, Rule, SpecModel
from inference_operator.manifest import MODEL_GATEWAY

MAX_ALIASES = 64
MAX_TARGETS = 8
MAX_WEIGHT = 1000


class TargetSpec(SpecModel):
    name: ObjectName = Field(description="Name of the InferenceDeployment. Required.")
    weight: int | None = Field(
        None,
        ge=0,
        le=MAX_WEIGHT,
        description="Share of the requests, relative to the other targets. A user, or else a session, stays at one"
        " target. Default: 1.",
    )
    fallback: bool = Field(
        default=False,
        description="Whether it only gets requests that another target could not take: a connection that was refused,"
        " 429 or 503. Only requests whose body fits a buffer go on to it. Default: false.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.weight) || !has(self.fallback) || !self.fallback",
            lambda target: target.weight is None or not target.fallback,
            "`weight` has no effect with `fallback: true`: remove one of them",
        ),
    )


class AliasSpec(SpecModel):
    name: Annotated[str, StringConstraints(min_length=1, max_length=253), CelRules(SERVED_NAME)] = Field(
        description="Name in the OpenAI API. Bodies reach the engine as they are, so each target must serve this name:"
        " as its `model.servedName`, as an adapter, or because its engines check no names. Required."
    )
    targets: tuple[TargetSpec, ...] = Field(
        min_length=1,
        max_length=MAX_TARGETS,
        description="Models that it stands for. Required.",
        json_schema_extra=BY_NAME,
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.targets.exists(one, !has(one.fallback) || !one.fallback)",
            lambda alias: any(not target.fallback for target in alias.targets),
            "an alias needs a target without `fallback: true`",
        ),
        Rule(
            "self.targets.all(one, self.targets.exists_one(other, other.name == one.name))",
            lambda alias: len({target.name for target in alias.targets}) == len(alias.targets),
            "each target of an alias must have another name",
        ),
    )


class ModelGatewaySpec(ProxySpec):
    """The desired state of a ModelGateway."""

    aliases: tuple[AliasSpec, ...] = Field(
        (),
        max_length=MAX_ALIASES,
        description="Further names, each for one or several models. Default: none; the names of the models are there"
        " anyway. Change: in place; no request is cut.",
        json_schema_extra=BY_NAME,
    )
    session_header: Annotated[str, StringConstraints(max_length=63), CelRules(HEADER_NAME)] = Field(
        "x-session-id",
        description="Header that identifies a session, for targets with weights. Default: `x-session-id`."
        " Change: rolling restart of the gateway's pods.",
    )
    drain_timeout: Annotated[timedelta, Within("1s", "1h", "5m")] = Field(
        DRAIN_TIMEOUT,
        description="Maximum time for a terminating gateway pod to finish its requests. Default: `5m`."
        " Change: rolling restart of the gateway's pods.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.httpRoute) || !has(self.httpRoute.modelHeader)",
            lambda gateway: gateway.http_route is None or gateway.http_route.model_header is None,
            "`httpRoute.modelHeader` must be removed: a gateway reads the model of each request itself",
        ),
        Rule(
            "!has(self.aliases) || self.aliases.all(one, self.aliases.exists_one(other, other.name == one.name))",
            lambda gateway: len({alias.name for alias in gateway.aliases}) == len(gateway.aliases),
            "each alias must have another name",
        ),
    )


class ModelGatewayStatus(ResourceStatus):
    """The observed state of a ModelGateway."""

    url: str | None = Field(None, description="URL of the OpenAI API inside the cluster.")
    external_urls: tuple[str, ...] = Field(
        (),
        max_length=MAX_EXTERNAL_URLS,
        description="URLs of the OpenAI API outside the cluster, once they have an address.",
    )
    models: int = Field(0, description="InferenceDeployments of the namespace.")
    models_served: int = Field(0, description="Those that can answer, or be woken.")
    models_ready: str | None = Field(None, description="Models that can answer, and all, for example `2/3`.")
    names: int = Field(0, description="Names that requests may use.")
    ready_replicas: int = Field(0, description="Number of ready gateway pods.")


MODEL_GATEWAY_API = ResourceApi(
    MODEL_GATEWAY,
    ModelGatewaySpec,
    ModelGatewayStatus,
    "One address for all models of a namespace: the model that a request names chooses.",
    ("mgw",),
    (
        column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether it takes requests"),
        column("Reason", "string", ".status.reason", "What is wrong, else the reason of the condition Ready"),
        column("Models", "string", ".status.modelsReady", "Models that can answer, and all"),
        column("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
        column("URL", "string", ".status.url", "URL of the OpenAI API inside the cluster", is_wide=True),
        column("Message", "string", ".status.message", "The cause, and what helps", is_wide=True),
    ),
    (
        ConditionType.READY,
        ConditionType.RECONCILING,
        ConditionType.STALLED,
        ConditionType.EXPOSED,
        ConditionType.NAMES_ACCEPTED,
    ),
)
