"""`spec.autoscaling`: between which numbers of engines the operator chooses, and how."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from inference_operator.api.duration import Within
from inference_operator.api.time_window import TimeWindow
from inference_operator.api.validation import Rule, SpecModel

MAX_REPLICAS = 256
"""Routers have up to twice as many server slots, and HAProxy takes 682 records from DNS (`router/haproxy.py`)."""

MAX_ENTRIES = 16
MAX_TARGET = 65536
"""As many as `engine.maxNumSeqs` allows."""

SCALE_DOWN_DELAY = timedelta(minutes=5)
"""The HorizontalPodAutoscaler's default (`--horizontal-pod-autoscaler-downscale-stabilization`, Kubernetes 1.36)."""

MAX_HPA_DELAY = timedelta(hours=1)
"""The longest window of a HorizontalPodAutoscaler (Kubernetes 1.36, pkg/apis/autoscaling/validation,
MaxStabilizationWindowSeconds)."""

IDLE_TIMEOUT = timedelta(minutes=15)
"""Three times the usual delay: the next request after it waits for a whole start of an engine."""

TIME_TO_FIRST_TOKEN = timedelta(seconds=2)
TIME_PER_OUTPUT_TOKEN = timedelta(milliseconds=50)
"""20 tokens per second, faster than people read."""
LEAST_PERCENTILE, PERCENTILE, MOST_PERCENTILE = 50, 95, 99
"""Published goodput counts 90 to 99 % of the requests (DistServe, arXiv:2401.09670: 90 %)."""


class AutoscalingBackend(StrEnum):
    BUILT_IN = "BuiltIn"
    HPA = "HPA"
    KEDA = "KEDA"


class ObjectiveSpec(SpecModel):
    ttft: Annotated[timedelta, Within("10ms", "1h", "2s")] = Field(
        TIME_TO_FIRST_TOKEN,
        description="Target for the time to first token (TTFT) of `percentile` % of the requests. Default: `2s`."
        " Change: in place.",
    )
    tpot: Annotated[timedelta, Within("1ms", "1m", "50ms")] = Field(
        TIME_PER_OUTPUT_TOKEN,
        description="Target for the time per output token (TPOT) of `percentile` % of the requests: the mean over a"
        " request's tokens after the first. Default: `50ms`. Change: in place.",
    )
    first_token_per_1000: Annotated[timedelta, Within("1ms", "1m", "500ms")] | None = Field(
        None,
        description="Time to first token that each 1,000 prompt tokens may take, where that is more than `ttft`: with"
        " `ttft: 2s` and `500ms`, 2 s up to 4,000 tokens and 4 s for 8,000. Default: what a lone request takes, so that"
        " no prompt is asked for the impossible. Change: in place.",
    )
    percentile: int = Field(
        PERCENTILE,
        ge=LEAST_PERCENTILE,
        le=MOST_PERCENTILE,
        description="Percentage of the requests that must meet each of `ttft` and `tpot`. Engines that are slow for"
        " them aim at twice the latencies of a lone request, if that is more. Default: 95. Change: in place.",
    )


class ScheduleSpec(TimeWindow):
    min_replicas: int = Field(
        ge=1, le=MAX_REPLICAS, description="Minimum number of engines in the window. Required. Change: in place."
    )


MIN_BELOW_MAX = Rule(
    "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
    lambda autoscaling: autoscaling.min_replicas <= autoscaling.max_replicas,
    "`minReplicas` must not be above `maxReplicas`",
)


class AutoscalingSpec(SpecModel):
    min_replicas: int = Field(
        1,
        ge=0,
        le=MAX_REPLICAS,
        description="Minimum number of engines. 0 allows scale to zero. Default: 1. Change: in place.",
    )
    max_replicas: int = Field(
        ge=1, le=MAX_REPLICAS, description="Maximum number of engines. Required. Change: in place."
    )
    backend: AutoscalingBackend = Field(
        AutoscalingBackend.BUILT_IN,
        description="What decides the number: this operator (`BuiltIn`), an HPA or KEDA. Default: `BuiltIn`. Change:"
        " in place.",
    )
    target_concurrency: int | None = Field(
        None,
        ge=1,
        le=MAX_TARGET,
        description="Target number of requests in flight per engine. Default: computed from `objective`. Change: in"
        " place.",
    )
    objective: ObjectiveSpec = Field(
        default_factory=ObjectiveSpec, description="Latency targets, from which `targetConcurrency` is computed."
    )
    scale_down_delay: Annotated[timedelta, Within("30s", "24h", "5m")] = Field(
        SCALE_DOWN_DELAY,
        description="How long demand must stay low before an engine is removed; never shorter than the measured"
        " start. Default: `5m`. Change: in place.",
    )
    idle_timeout: Annotated[timedelta, Within("10s", "24h", "15m")] = Field(
        IDLE_TIMEOUT,
        description="How long no request may arrive before the last engine is removed, with `minReplicas: 0`."
        " Default: `15m`. Change: in place.",
    )
    schedule: tuple[ScheduleSpec, ...] = Field(
        (),
        max_length=MAX_ENTRIES,
        description="Windows with a higher minimum number of engines. Default: none. Change: in place.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        MIN_BELOW_MAX,
        Rule(
            "!has(self.schedule) || self.schedule.all(entry, entry.minReplicas <= self.maxReplicas)",
            lambda autoscaling: all(entry.min_replicas <= autoscaling.max_replicas for entry in autoscaling.schedule),
            "`schedule[].minReplicas` must not be above `maxReplicas`",
        ),
        Rule(
            "!has(self.backend) || self.backend != 'HPA' || !has(self.minReplicas) || self.minReplicas > 0",
            lambda autoscaling: autoscaling.backend is not AutoscalingBackend.HPA or autoscaling.min_replicas > 0,
            "backend `HPA` needs `minReplicas` of 1 or more; `BuiltIn` and `KEDA` allow 0",
        ),
        Rule(
            "!has(self.backend) || self.backend == 'BuiltIn' || !has(self.scaleDownDelay)"
            " || duration(self.scaleDownDelay) <= duration('1h')",
            lambda autoscaling: (
                autoscaling.backend is AutoscalingBackend.BUILT_IN or autoscaling.scale_down_delay <= MAX_HPA_DELAY
            ),
            "`scaleDownDelay` must be at most 1h with `HPA` and `KEDA`",
        ),
    )
