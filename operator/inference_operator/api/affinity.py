"""`spec.scheduling.affinity`: Kubernetes' own names and meaning, as far as most ask for it.

Nodes by their labels; pods of the same namespace by `matchLabels`. The whole of Kubernetes' affinity would be half of
the CRD.
"""

import re
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from inference_operator.api.labels import LabelKey, Labels
from inference_operator.api.part import Part, Rule

_Value = Annotated[str, StringConstraints(max_length=63)]
_ORDERED = ("Gt", "Lt")
_WHOLE_NUMBER = re.compile("-?[0-9]{1,18}")


class NodeOperator(StrEnum):
    """How a label of a node is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_LISTED = Rule(
    "(has(self.values) && self.values.size() > 0) == !(self.operator in ['Exists', 'DoesNotExist'])",
    lambda self: bool(self.values) == (self.operator not in ("Exists", "DoesNotExist")),
    "must have `values`, except with the operators `Exists` and `DoesNotExist`, which have none",
)
_ORDERING = Rule(
    "!(self.operator in ['Gt', 'Lt'])"
    " || (has(self.values) && self.values.size() == 1 && self.values[0].matches('^-?[0-9]{1,18}$'))",
    lambda self: (
        self.operator not in _ORDERED or (len(self.values) == 1 and _WHOLE_NUMBER.fullmatch(self.values[0]) is not None)
    ),
    "must have one whole number in `values` with the operators `Gt` and `Lt`, for example `40000`",
)


class NodeRequirement(Part):
    """What must hold of one label of a node."""

    key: LabelKey = Field(description="Label.")
    operator: NodeOperator = Field(description="How it is compared.")
    values: tuple[_Value, ...] = Field((), max_length=16, description="What it is compared with.")

    rules: ClassVar[tuple[Rule, ...]] = (_LISTED, _ORDERING)


class NodeSelectorTerm(Part):
    """Labels of a node, all of which must match."""

    match_expressions: tuple[NodeRequirement, ...] = Field(
        min_length=1, max_length=8, description="What must hold of its labels."
    )


class NodeSelector(Part):
    """Terms, one of which must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = Field(min_length=1, max_length=8, description="The terms.")


class PreferredNodes(Part):
    """Nodes that are preferred, and how much."""

    weight: int = Field(ge=1, le=100, description="How much.")
    preference: NodeSelectorTerm = Field(description="Which.")


class NodeAffinity(Part):
    """Nodes that attract engines."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = Field(
        None, description="Nodes that engines must run on."
    )
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] = Field(
        (), max_length=8, description="Nodes that are preferred."
    )


class LabelSelector(Part):
    """Which pods are meant."""

    match_labels: Labels = Field(min_length=1, description="Labels and their values.")


class PodTerm(Part):
    """Pods of this namespace, and what counts as near them."""

    label_selector: LabelSelector = Field(description="Which pods.")
    topology_key: LabelKey = Field(description="Node label whose value near pods share.")


class PreferredPods(Part):
    """Pods that matter, and how much."""

    weight: int = Field(ge=1, le=100, description="How much.")
    pod_affinity_term: PodTerm = Field(description="Which.")


class PodAffinity(Part):
    """Pods of this namespace that attract engines, or repel them."""

    required_during_scheduling_ignored_during_execution: tuple[PodTerm, ...] = Field(
        (), max_length=8, description="What must hold."
    )
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPods, ...] = Field(
        (), max_length=8, description="What is preferred."
    )


class Affinity(Part):
    """Nodes and pods that attract or repel engines."""

    node_affinity: NodeAffinity = Field(NodeAffinity(), description="Nodes that attract engines.")
    pod_affinity: PodAffinity = Field(PodAffinity(), description="Pods of this namespace that attract engines.")
    pod_anti_affinity: PodAffinity = Field(PodAffinity(), description="Pods of this namespace that repel engines.")
