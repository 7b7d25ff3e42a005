"""`spec.scheduling.affinity`: Kubernetes' `affinity`, with the same names and meaning (1.36, core/v1).

Terms about pods of other namespaces need the right to create pods: a required anti-affinity keeps the pods of others
from a node.
"""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from inference_operator.api.validation import LabelKey, Labels, ObjectName, Rule, SpecModel

_Value = Annotated[str, StringConstraints(max_length=63)]
_Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
_ORDERED = ("Gt", "Lt")
_WHOLE_NUMBER = re.compile("-?[0-9]{1,18}")


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


class NodeRequirement(SpecModel):
    key: LabelKey = Field(description="Label key.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = Field(
        description="Relation of the label to the values."
    )
    values: tuple[_Value, ...] = Field(
        (), max_length=16, description="Values that the label is compared with. Default: none."
    )

    rules: ClassVar[tuple[Rule, ...]] = (_LISTED, _ORDERING)


class FieldRequirement(SpecModel):
    key: Literal["metadata.name"] = Field(description="Always `metadata.name`.")
    operator: Literal["In", "NotIn"] = Field(description="Relation of the field to the value.")
    values: tuple[Annotated[str, StringConstraints(max_length=253)], ...] = Field(
        min_length=1, max_length=1, description="The name of a node."
    )


class NodeSelectorTerm(SpecModel):
    match_expressions: tuple[NodeRequirement, ...] = Field(
        (), max_length=8, description="Requirements on node labels; all must match."
    )
    match_fields: tuple[FieldRequirement, ...] = Field(
        (), max_length=8, description="Requirements on fields of a node; all must match."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.matchExpressions) && self.matchExpressions.size() > 0)"
            " || (has(self.matchFields) && self.matchFields.size() > 0)",
            lambda term: bool(term.match_expressions or term.match_fields),
            "must have `matchExpressions` or `matchFields`: a term without any matches no node",
        ),
    )


class NodeSelector(SpecModel):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = Field(
        min_length=1, max_length=8, description="Node selector terms; one must match."
    )


class PreferredNodes(SpecModel):
    weight: int = Field(ge=1, le=100, description="Weight of this preference, 1 to 100.")
    preference: NodeSelectorTerm = Field(description="Preferred nodes.")


class NodeAffinity(SpecModel):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = Field(
        None, description="Pods run only on nodes that match."
    )
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] = Field(
        (), max_length=8, description="Nodes that the scheduler prefers."
    )


class LabelRequirement(SpecModel):
    key: LabelKey = Field(description="Label key.")
    operator: _Operator = Field(description="Relation of the label to the values.")
    values: tuple[_Value, ...] = Field(
        (), max_length=16, description="Values that the label is compared with. Default: none."
    )

    rules: ClassVar[tuple[Rule, ...]] = (_LISTED,)


class LabelSelector(SpecModel):
    """Selects objects by their labels; without any requirement, all of them."""

    match_labels: Labels = Field(default_factory=dict, description="Labels that an object must have. Default: none.")
    match_expressions: tuple[LabelRequirement, ...] = Field(
        (), max_length=8, description="Requirements on labels; all must match."
    )


class PodTerm(SpecModel):
    label_selector: LabelSelector | None = Field(None, description="Selects pods. Default: none.")
    topology_key: LabelKey = Field(description="Node label whose values are the topology domains.")
    namespaces: tuple[ObjectName, ...] = Field(
        (), max_length=8, description="Namespaces of the pods. Default: this one."
    )
    namespace_selector: LabelSelector | None = Field(None, description="More namespaces of the pods. Default: none.")
    match_label_keys: tuple[LabelKey, ...] = Field(
        (), max_length=8, description="Labels in which the pods must equal the new pod. Default: none."
    )
    mismatch_label_keys: tuple[LabelKey, ...] = Field(
        (), max_length=8, description="Labels in which the pods must differ from the new pod. Default: none."
    )


class PreferredPods(SpecModel):
    weight: int = Field(ge=1, le=100, description="Weight of this preference, 1 to 100.")
    pod_affinity_term: PodTerm = Field(description="Pod affinity term.")


class PodAffinity(SpecModel):
    required_during_scheduling_ignored_during_execution: tuple[PodTerm, ...] = Field(
        (), max_length=8, description="Terms that must be met."
    )
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPods, ...] = Field(
        (), max_length=8, description="Terms that the scheduler prefers to meet."
    )


class Affinity(SpecModel):
    node_affinity: NodeAffinity = Field(NodeAffinity(), description="Nodes that pods run on or prefer.")
    pod_affinity: PodAffinity = Field(PodAffinity(), description="Pods that they are placed near.")
    pod_anti_affinity: PodAffinity = Field(PodAffinity(), description="Pods that they are kept away from.")
