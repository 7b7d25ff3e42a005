"""`spec` of an InferenceDeployment as pydantic models, with the validation rules of the API server.

`crd.py` generates the CRD from these models; `validation.py` defines the rules.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from inference_operator.api.autoscaling import MAX_REPLICAS, AutoscalingSpec
from inference_operator.api.cache import CacheSpec
from inference_operator.api.disaggregation import DisaggregationSpec
from inference_operator.api.duration import Within
from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import HardwareSpec, ParallelismSpec
from inference_operator.api.model import HUB_TOKEN, ModelSpec
from inference_operator.api.pod_template import PodTemplateSpec
from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.api.scheduling import SchedulingSpec
from inference_operator.api.validation import Rule, SpecModel

MAX_NAME_LENGTH = 55
"""A Service's name has at most 63 characters (DNS-1035 label); the longest suffix of a child is `-engines`."""

DRAIN_TIMEOUT = timedelta(minutes=5)
"""Time for an answer of 8,192 tokens at 30 tokens/s, which is 273 s; and, with what comes before and after it, below
the 600 s that a node autoscaler gives the pods of a node that it removes (kubernetes/autoscaler,
cluster-autoscaler/FAQ.md, `max-graceful-termination-sec`). Idle pods do not wait."""


class RolloutStrategy(StrEnum):
    AUTO = "Auto"
    SURGE = "Surge"
    REPLACE = "Replace"


class RolloutSpec(SpecModel):
    strategy: RolloutStrategy = Field(
        RolloutStrategy.AUTO,
        description="`Surge` starts a new engine pod before it stops an old one, which needs resources for one more"
        " engine. `Replace` stops an old engine pod before it starts a new one. `Auto` surges if resources are free"
        " and replaces otherwise. Default: `Auto`. Change: in place.",
    )
    progress_deadline: Annotated[timedelta, Within("1m", "48h", "30m")] | None = Field(
        None,
        description="Maximum time without rollout progress of engines or routers before the condition Stalled is True,"
        " for example `30m`. Default: `startupTimeout` plus 5 minutes. Change: in place.",
    )


class Spec(SpecModel):
    """The desired state of an InferenceDeployment."""

    model: ModelSpec = Field(description="Model to serve.")
    engine: EngineSpec = Field(default_factory=EngineSpec, description="Inference engine.")
    hardware: HardwareSpec = Field(default_factory=HardwareSpec, description="Hardware that engines run on.")
    parallelism: ParallelismSpec = Field(
        default_factory=ParallelismSpec, description="Parallelism of one engine over its GPUs."
    )
    disaggregation: DisaggregationSpec | None = Field(
        None,
        description="Computes long prompts on engines of their own, for vLLM on one node. Default: none, each engine"
        " computes its prompts.",
    )
    replicas: int = Field(
        1,
        ge=0,
        le=MAX_REPLICAS,
        description="Number of engines. `kubectl scale` and autoscalers set it through `/scale`. Default: 1."
        " Change: in place.",
        json_schema_extra={"default": 1},
    )
    autoscaling: AutoscalingSpec | None = Field(
        None,
        description="Scales the engines between `minReplicas` and `maxReplicas` by the number of requests; `replicas`"
        " is only the initial number. Default: none.",
    )
    router: RouterSpec = Field(default_factory=RouterSpec, description="Load balancer in front of the engines.")
    rollout: RolloutSpec = Field(default_factory=RolloutSpec, description="Rollout of changes to the engines.")
    startup_timeout: Annotated[timedelta, Within("1m", "24h", "45m")] | None = Field(
        None,
        description="Maximum time from the start of an engine container until it is ready; after that the kubelet"
        " restarts it. Example: `45m`. Default: computed from the checkpoint size, at least `30m`. Change: rolling"
        " restart.",
    )
    drain_timeout: Annotated[timedelta, Within("1s", "1h", "5m")] = Field(
        DRAIN_TIMEOUT,
        description="Maximum time for a terminating engine or router to finish its requests, for example `20m`. It"
        " stops at once if it has none. Longer requests are cut: a stream ends early, and a client without an answer"
        " yet gets an error. Default: `5m`. Change: rolling restart.",
    )
    paused: bool = Field(
        False,  # noqa: FBT003 - a field's default
        description="Whether the operator stops creating, changing and deleting child objects. The status is still"
        " updated. Default: false. Change: in place; edits made while paused are applied when it is set to false.",
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
        return self.autoscaling.max_replicas if self.autoscaling else self.replicas

    @property
    def needs_engine_key(self) -> bool:
        """Whether what engines have is closed to all but their routers and each other."""
        return self.router.keys is not None or self.disaggregation is not None

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
            lambda spec: not spec.model.token_secret_ref or all(item.name != HUB_TOKEN for item in spec.engine.env),
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
