"""`spec.router`: the load balancer in front of the engines."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from inference_operator.api.container import DataKey, ResourcesSpec, SecretKeySelector
from inference_operator.api.duration import Within
from inference_operator.api.pod_template import PodTemplateSpec
from inference_operator.api.router_exposure import (
    HEADER_NAME,
    CorsSpec,
    HttpRouteSpec,
    InferencePoolSpec,
    IngressSpec,
    ServiceSpec,
    TlsSpec,
)
from inference_operator.api.scheduling import PodScheduling
from inference_operator.api.validation import CelRules, Quantity, Rule, SpecModel

KEYS_FILE = "keys"


class KeysSecretRef(SecretKeySelector):
    key: DataKey = Field(KEYS_FILE, description=f"Key in its `data`. Default: `{KEYS_FILE}`.")


class KeysOfGateways(StrEnum):
    REFUSE = "Refuse"
    TRUST = "Trust"


class KeysSpec(SpecModel):
    secret_ref: KeysSecretRef = Field(
        description="Secret that holds a line `USER: SHA256` for each API key, as `infd key create` prints it. A"
        " line may end with `priority=High` or `priority=Low`: requests of this user leave the queue before, or after,"
        " those of others. Changes of its content take effect within two minutes. Change: rolling restart of routers."
    )
    requests_per_minute: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Requests per minute of each user. A user may send those of five seconds at once, and at least one;"
        " further ones get 429 with `Retry-After`. Default: none. Change: rolling restart of routers.",
    )
    max_concurrent: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Requests in flight of each user; further ones get 429 with `Retry-After`."
        " Default: none. Change: rolling restart of routers.",
    )


class RouterKeysSpec(KeysSpec):
    gateways: KeysOfGateways = Field(
        KeysOfGateways.REFUSE,
        description="Requests of the namespace's ModelGateways without an API key of this model. `Refuse` answers 401."
        " `Trust` takes whom the gateway lets in, everybody where it asks for no key; limits are then of the users that"
        " it names. Default: `Refuse`. Change: rolling restart of the routers.",
    )


DEFAULT_WAIT = timedelta(minutes=5)
"""Half of the 10 minutes that the `openai` package waits for an answer (openai-python 2, `DEFAULT_TIMEOUT`)."""

LEAST_SIZE = 2
"""One request for each HAProxy process of a router pod."""

MOST_SIZE = 100_000
"""As many as a router pod with 12.5 GiB of memory can hold."""


class QueueSpec(SpecModel):
    max_size: int | None = Field(
        None,
        ge=LEAST_SIZE,
        le=MOST_SIZE,
        description="Maximum number of waiting requests per router pod, for a busy engine or for the start of one;"
        " more get 429. Each of the pod's two HAProxy processes takes half, rounded down. Default: 1024, or fewer"
        " where half of the router's memory holds fewer. Change: rolling restart of the routers.",
    )
    timeout: Annotated[timedelta, Within("1s", "30m", "5m")] = Field(
        DEFAULT_WAIT,
        description="Maximum time that a request waits for a busy engine; then 503. Default: `5m`."
        " Change: rolling restart of the routers.",
    )


class ColdStartSpec(SpecModel):
    timeout: Annotated[timedelta, Within("3s", "30m", "10m")] | None = Field(
        None,
        description="Maximum time that a request is held while no engine is up, for example during a start from zero;"
        " then 503. `queue.maxSize` limits how many are held. Default: `5m`, or `10m`, `20m` or `30m` once an engine's"
        " start was measured to take more than half of it. Change: rolling restart of the routers.",
    )


MAX_ROUTERS = 16
"""More router pods would only divide the load further: one sends more requests per second than many engines serve."""


class RouterStrategy(StrEnum):
    LEAST_OUTSTANDING = "LeastOutstanding"
    PREFIX_AFFINITY = "PrefixAffinity"
    EXTERNAL = "External"


class RouterAccessLog(StrEnum):
    ENABLED = "Enabled"
    ERRORS = "Errors"
    DISABLED = "Disabled"


class RouterUsage(StrEnum):
    ENABLED = "Enabled"
    DISABLED = "Disabled"


class RouterAccess(StrEnum):
    ANY = "Any"
    GATEWAYS_ONLY = "GatewaysOnly"


class RouterMetricsSpec(SpecModel):
    users: bool = Field(
        default=False,
        description="Whether they show the names of users of API keys, instead of hashes. Default: false."
        " Change: rolling restart of the routers.",
    )


class ProxySpec(SpecModel):
    """What routers and gateways have alike."""

    replicas: int = Field(2, ge=1, le=MAX_ROUTERS, description="Number of router pods. Default: 2. Change: in place.")
    resources: ResourcesSpec = Field(
        default_factory=ResourcesSpec,
        description="CPU, memory and ephemeral storage of one router pod. Each of its two HAProxy processes gets half:"
        " one thread for each CPU (rounded up) and one connection for each 64 KiB of the memory limit. Each key"
        " overrides one default. Default: requests of 100m CPU and 64Mi, limit of 512Mi. Change: rolling restart of"
        " the routers.",
    )
    scheduling: PodScheduling = Field(
        default_factory=PodScheduling,
        description="Scheduling of the router pods. Its changes replace routers one by one, and no engines.",
    )
    session_header: Annotated[str, StringConstraints(max_length=63), CelRules(HEADER_NAME)] = Field(
        "x-session-id",
        description="Header that identifies a session, for `PrefixAffinity`. Default: `x-session-id`."
        " Change: rolling restart of the routers.",
    )
    keys: KeysSpec | None = Field(
        None,
        description="API keys that requests must have. Default: none, everybody who reaches the router may use the"
        " model. Change: rolling restart of the routers.",
    )
    max_body_size: Quantity | None = Field(
        None,
        description="Largest body of a request, for example `20Mi`; larger ones get 413, those without Content-Length"
        " 411. Default: no limit. Change: rolling restart of the routers.",
    )
    access_log: RouterAccessLog = Field(
        RouterAccessLog.ENABLED,
        description="Which requests routers log, one JSON object each. `Errors` logs status 500 and above, retries, and"
        " answers that were cut. No prompt is logged. Default: `Enabled`. Change: rolling restart of the routers.",
    )
    metrics: RouterMetricsSpec = Field(
        default_factory=RouterMetricsSpec, description="What everybody sees who may read the metrics of the routers."
    )
    cors: CorsSpec | None = Field(
        None,
        description="Web pages of other sites whose scripts may call the service. Routers answer browsers then, in"
        " place of the engines. Default: the engines answer, and refuse. Change: rolling restart of the routers.",
    )
    service: ServiceSpec = Field(default_factory=ServiceSpec, description="Service that clients call.")
    ingress: IngressSpec | None = Field(
        None, description="Ingress in front of the Service. Default: none. Change: in place."
    )
    http_route: HttpRouteSpec | None = Field(
        None, description="HTTPRoute of Gateway API in front of the Service. Default: none. Change: in place."
    )
    tls: TlsSpec | None = Field(
        None,
        description="TLS on port 443 of the Service. HTTP stays on port 80. Default: none."
        " Change: rolling restart of the routers.",
    )


class RouterSpec(ProxySpec):
    pod_template: PodTemplateSpec = Field(
        default_factory=PodTemplateSpec,
        description="Additions to the router pods. Its changes replace routers one by one, and no engines.",
    )
    strategy: RouterStrategy | None = Field(
        None,
        description="How an engine is chosen. `LeastOutstanding` takes the engine with the fewest requests."
        " `PrefixAffinity` sends requests with the same session, system prompt or first message to the same engine,"
        " which has them in its prefix cache. `External` runs no router: a Gateway or another router chooses, and the"
        " Service selects the engines. Default: `PrefixAffinity` where `replicas` or `autoscaling.maxReplicas` is 4 or"
        " more as the routers are built, else `LeastOutstanding`; later changes of these numbers, and upgrades, keep"
        " what serves. Change: rolling restart of the routers.",
    )
    keys: RouterKeysSpec | None = Field(
        None,
        description="API keys that requests must have. Default: none, everybody who reaches the router may use the"
        " model. Change: rolling restart of the routers.",
    )
    access: RouterAccess = Field(
        RouterAccess.ANY,
        description="Who may send requests. `GatewaysOnly` refuses all but the namespace's ModelGateways with 403, also"
        " where no NetworkPolicy is enforced; health checks and metrics stay open. Default: `Any`."
        " Change: rolling restart of the routers.",
    )
    queue: QueueSpec = Field(default_factory=QueueSpec, description="Queue for requests while all engines are busy.")
    cold_start: ColdStartSpec = Field(
        default_factory=ColdStartSpec, description="Holds the requests that arrive while no engine is up."
    )
    usage: RouterUsage = Field(
        RouterUsage.DISABLED,
        description="Whether routers read the tokens of answers that report their usage, for the access log and the"
        " metrics of each user. It costs CPU for each chunk of such streams. Default: `Disabled`. Change: rolling"
        " restart of the routers.",
    )
    inference_pool: InferencePoolSpec | None = Field(
        None,
        description="InferencePool of the engines, to which a Gateway sends requests. It needs `strategy: External`."
        " Default: none. Change: in place.",
    )


_WITHOUT_ROUTER = {"strategy", "inference_pool"}
"""Fields that mean something where no router runs."""


def _needs_router(model: type[RouterSpec]) -> Rule:
    """The refusal of every other field of the router beside `External`: nothing would read it."""
    others = [info.alias or name for name, info in model.model_fields.items() if name not in _WITHOUT_ROUTER]
    given = " || ".join(f"has(self.{name})" for name in others)
    return Rule(
        f"!has(self.strategy) || self.strategy != 'External' || !({given})",
        lambda router: router.strategy is not RouterStrategy.EXTERNAL or router.model_fields_set <= _WITHOUT_ROUTER,
        "`External` runs no router, so every other field of `router` but `inferencePool` must be removed",
    )


_POOL_NEEDS_EXTERNAL = Rule(
    "!has(self.inferencePool) || (has(self.strategy) && self.strategy == 'External')",
    lambda router: router.inference_pool is None or router.strategy is RouterStrategy.EXTERNAL,
    "`inferencePool` needs `strategy: External`: its requests go to engines past the routers",
)


_GATEWAYS_ONLY = Rule(
    "!has(self.access) || self.access != 'GatewaysOnly' || !(has(self.ingress) || has(self.httpRoute))",
    lambda router: router.access is not RouterAccess.GATEWAYS_ONLY or not (router.ingress or router.http_route),
    "`access: GatewaysOnly` refuses what `ingress` and `httpRoute` bring: use those of the gateway",
)


RouterSpec.rules = (_needs_router(RouterSpec), _POOL_NEEDS_EXTERNAL, _GATEWAYS_ONLY)
