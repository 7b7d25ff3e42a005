"""`spec.scheduling`: where engines may run and how the scheduler treats them, in Kubernetes' own names and meaning.

Bounded; the rules are those of Kubernetes 1.36, pkg/apis/core/validation.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from inference_operator.api.affinity import Affinity
from inference_operator.api.labels import LabelKey, Labels, LabelValue, ObjectName
from inference_operator.api.part import Part, Rule


class TolerationOperator(StrEnum):
    """How a toleration is compared with a taint."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Unsatisfiable(StrEnum):
    """What becomes of a pod that cannot be placed evenly."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class Toleration(Part):
    """A taint that engines put up with."""

    key: LabelKey | None = Field(None, description="Key of the taint. Default: every key.")
    operator: TolerationOperator | None = Field(None, description="`Equal` or `Exists`. Default: `Equal`.")
    value: LabelValue | None = Field(None, description="Value of the taint, with `Equal`.")
    effect: TaintEffect | None = Field(None, description="Effect of the taint. Default: every effect.")
    toleration_seconds: int | None = Field(
        None, ge=0, le=86400, description="How long a `NoExecute` taint is tolerated. Default: for ever."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            lambda self: self.key is not None or self.operator is TolerationOperator.EXISTS,
            "must have a `key`, or the operator `Exists`, which tolerates every taint",
        ),
        Rule(
            "!has(self.value) || self.value == '' || !has(self.operator) || self.operator != 'Exists'",
            lambda self: not self.value or self.operator is not TolerationOperator.EXISTS,
            "must have no `value` when the operator is `Exists`",
        ),
        Rule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            lambda self: self.toleration_seconds is None or self.effect is TaintEffect.NO_EXECUTE,
            "`tolerationSeconds` needs the effect `NoExecute`",
        ),
    )


class TopologySpread(Part):
    """How evenly engines are spread; the operator selects the engines."""

    topology_key: LabelKey = Field(description="Node label whose values are the domains.")
    max_skew: int = Field(1, ge=1, le=256, description="Largest difference between two domains. Default: 1.")
    when_unsatisfiable: Unsatisfiable = Field(
        Unsatisfiable.SCHEDULE_ANYWAY, description="What becomes of a pod that fits nowhere. Default: `ScheduleAnyway`."
    )
    min_domains: int | None = Field(
        None, ge=1, le=1024, description="Fewest domains, with `DoNotSchedule`. Default: 1."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.minDomains) || (has(self.whenUnsatisfiable) && self.whenUnsatisfiable == 'DoNotSchedule')",
            lambda self: self.min_domains is None or self.when_unsatisfiable is Unsatisfiable.DO_NOT_SCHEDULE,
            "`minDomains` needs `whenUnsatisfiable: DoNotSchedule`",
        ),
    )


def _unique_keys(constraints: tuple[TopologySpread, ...]) -> tuple[TopologySpread, ...]:
    if len({c.topology_key for c in constraints}) != len(constraints):
        raise ValueError("must not name a `topologyKey` twice")
    return constraints


class SchedulingSpec(Part):
    """Where engines run and how the scheduler treats them. Routers need no GPU and stay as the operator places them."""

    node_selector: Labels = Field(
        default_factory=dict,
        description="Labels that a node must have. Default: none. Change: rolling restart.",
    )
    tolerations: tuple[Toleration, ...] = Field(
        (),
        max_length=16,
        description="Taints that engines put up with, beside the taint of the GPU resource, which engines on GPUs"
        " always tolerate. Default: none. Change: rolling restart.",
    )
    affinity: Affinity = Field(
        Affinity(), description="Nodes and pods that attract or repel engines. Default: none. Change: rolling restart."
    )
    priority_class_name: ObjectName | None = Field(
        None, description="PriorityClass of the engines. Default: the cluster's. Change: rolling restart."
    )
    runtime_class_name: ObjectName | None = Field(
        None,
        description="RuntimeClass of the engines, for example `nvidia`. Default: the nodes'. Change: rolling restart.",
    )
    scheduler_name: ObjectName | None = Field(
        None, description="Scheduler that places the engines. Default: Kubernetes' own. Change: rolling restart."
    )
    queue_name: ObjectName | None = Field(
        None,
        max_length=63,
        description="LocalQueue of Kueue that admits the engines' pods: the label `kueue.x-k8s.io/queue-name` of their"
        " Deployment. Default: none. Change: in place, and Kueue refuses it while an engine is ready.",
    )
    topology_spread: Annotated[tuple[TopologySpread, ...], AfterValidator(_unique_keys)] = Field(
        (),
        max_length=8,
        description="How evenly engines are spread over domains of nodes. Default: the scheduler's own."
        " Change: rolling restart.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["topologyKey"]},
    )
