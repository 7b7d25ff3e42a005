"""`spec.scheduling` and `spec.router.scheduling`: scheduling of pods, with Kubernetes' own names and meaning.

All lists and strings are bounded; the rules are those of Kubernetes 1.36, pkg/apis/core/validation.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from inference_operator.api.affinity import Affinity
from inference_operator.api.container import list_map
from inference_operator.api.duration import Within
from inference_operator.api.validation import LabelKey, Labels, LabelValue, ObjectName, Rule, SpecModel, unique


class TolerationOperator(StrEnum):
    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Unsatisfiable(StrEnum):
    """The scheduler's action for a pod that would exceed `maxSkew`."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class Gang(StrEnum):
    AUTO = "Auto"
    OFF = "Off"


class Toleration(SpecModel):
    key: LabelKey | None = Field(None, description="Key of the taint. Default: all keys.")
    operator: TolerationOperator | None = Field(None, description="`Equal` or `Exists`. Default: `Equal`.")
    value: LabelValue | None = Field(None, description="Value of the taint, for the operator `Equal`. Default: empty.")
    effect: TaintEffect | None = Field(None, description="Effect of the taint. Default: all effects.")
    toleration_seconds: int | None = Field(
        None, ge=0, le=86400, description="Seconds to tolerate a `NoExecute` taint. Default: no limit."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            lambda self: self.key is not None or self.operator is TolerationOperator.EXISTS,
            "must have a `key`, or the operator `Exists`, which tolerates all taints",
        ),
        Rule(
            "!has(self.value) || self.value == '' || !has(self.operator) || self.operator != 'Exists'",
            lambda self: not self.value or self.operator is not TolerationOperator.EXISTS,
            "must not have a `value` if the operator is `Exists`",
        ),
        Rule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            lambda self: self.toleration_seconds is None or self.effect is TaintEffect.NO_EXECUTE,
            "`tolerationSeconds` requires the effect `NoExecute`",
        ),
    )


class TopologySpread(SpecModel):
    topology_key: LabelKey = Field(description="Node label whose values are the topology domains.")
    max_skew: int = Field(1, ge=1, le=256, description="Maximum difference in pods between two domains. Default: 1.")
    when_unsatisfiable: Unsatisfiable = Field(
        Unsatisfiable.SCHEDULE_ANYWAY,
        description="What to do with a pod that would exceed `maxSkew`. Default: `ScheduleAnyway`.",
    )
    min_domains: int | None = Field(
        None, ge=1, le=1024, description="Minimum number of domains, for `DoNotSchedule`. Default: 1."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.minDomains) || (has(self.whenUnsatisfiable) && self.whenUnsatisfiable == 'DoNotSchedule')",
            lambda self: self.min_domains is None or self.when_unsatisfiable is Unsatisfiable.DO_NOT_SCHEDULE,
            "`minDomains` requires `whenUnsatisfiable: DoNotSchedule`",
        ),
    )


class PodScheduling(SpecModel):
    node_selector: Labels = Field(
        default_factory=dict,
        description="Labels that a node must have to run the pods. Default: none. Change: rolling restart.",
    )
    tolerations: tuple[Toleration, ...] = Field(
        (),
        max_length=16,
        description="Tolerations of the pods. Engines on GPUs always tolerate the taint of the GPU resource."
        " Default: none. Change: rolling restart.",
    )
    affinity: Affinity = Field(
        Affinity(), description="Affinity of the pods to nodes and pods. Default: none. Change: rolling restart."
    )
    priority_class_name: ObjectName | None = Field(
        None, description="PriorityClass of the pods. Default: the cluster's default. Change: rolling restart."
    )
    runtime_class_name: ObjectName | None = Field(
        None,
        description="RuntimeClass of the pods, for example `nvidia` for engines. Default: the container runtime's"
        " default. Change: rolling restart.",
    )
    scheduler_name: ObjectName | None = Field(
        None, description="Name of the scheduler of the pods. Default: `default-scheduler`. Change: rolling restart."
    )
    topology_spread: Annotated[
        tuple[TopologySpread, ...], unique("must not contain the same `topologyKey` twice", by="topology_key")
    ] = Field(
        (),
        max_length=8,
        description="Topology spread constraints of the pods. Default: those of the scheduler; routers prefer"
        " different nodes. Change: rolling restart.",
        json_schema_extra=list_map("topologyKey"),
    )


class SchedulingSpec(PodScheduling):
    topology_key: LabelKey | None = Field(
        None,
        description="Node label in which the nodes of one engine must be equal, for example"
        " `topology.kubernetes.io/zone` or `nvidia.com/gpu.clique`. For engines over several nodes. Default: none."
        " Change: rolling restart with new sizing.",
    )
    queue_name: ObjectName | None = Field(
        None,
        max_length=63,
        description="Kueue LocalQueue of the engine pods, set as the label `kueue.x-k8s.io/queue-name` of their"
        " Deployment. Default: none. Change: in place; Kueue rejects it while an engine is ready.",
    )
    eviction_wait: Annotated[timedelta, Within("0s", "24h", "30m")] | None = Field(
        None,
        description="How long a drain waits for the successor of an engine or of the only router; `0s`: not at"
        " all. Default: twice the last start of an engine (5 minutes for a router) and the operator's"
        " `surgeWaitSeconds`. Change: in place.",
    )
    gang: Gang = Field(
        Gang.AUTO,
        description="Whether a gang scheduler places an engine over several nodes whole or not at all. `Auto`: if"
        " `schedulerName` is set and its PodGroup is installed (scheduler-plugins, Volcano); or `Off`. Kueue does it by"
        " `queueName`. Default: `Auto`. Change: in place, for new groups of pods.",
    )
