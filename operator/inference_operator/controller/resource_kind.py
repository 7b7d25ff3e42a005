"""The kinds of resources that the operator reconciles: what is decided and reported about each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

from typing_extensions import TypeVar

from inference_operator.api.model_gateway import MODEL_GATEWAY_API
from inference_operator.api.resource import INFERENCE_DEPLOYMENT_API, Resource, ResourceApi, SpecT, StatusT
from inference_operator.gateway import decide as gateway
from inference_operator.gateway import report as gateway_report
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Kind
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.part import ResourceDecision
from inference_operator.status.events import Event, events
from inference_operator.status.report import Report, report
from inference_operator.status.write_results import WriteResult

DecisionT = TypeVar("DecisionT", bound=ResourceDecision, default=ResourceDecision)


@dataclass(frozen=True, slots=True)
class ResourceKind(Generic[SpecT, StatusT, DecisionT]):
    """A kind of resource. Everything else of the controller is the same for all kinds."""

    api: ResourceApi[SpecT, StatusT]
    decide: Callable[[Inputs[Resource[SpecT, StatusT]]], DecisionT]
    """Pure: the children that a resource should have, and what to do about its pods."""
    report: Callable[[Inputs[Resource[SpecT, StatusT]], DecisionT, Sequence[WriteResult]], Report[StatusT]]
    """Pure: the status after a round of writes, and when to decide again."""
    events: Callable[[StatusT, StatusT], Sequence[Event]]
    """Pure: the Events for the transition between two statuses."""
    follows: frozenset[Kind] = frozenset()
    """Kinds of which `decide` reads the resources of its namespace. A change of one is a reason to decide again."""


AnyResourceKind: TypeAlias = ResourceKind[Any, Any, Any]

INFERENCE_DEPLOYMENTS = ResourceKind(INFERENCE_DEPLOYMENT_API, outcome, report, events)
MODEL_GATEWAYS = ResourceKind(
    MODEL_GATEWAY_API, gateway.decide, gateway_report.report, gateway_report.events, frozenset({INFERENCE_DEPLOYMENT})
)
KINDS: Sequence[AnyResourceKind] = (INFERENCE_DEPLOYMENTS, MODEL_GATEWAYS)
"""The kinds of this release. A cluster may lack the CustomResourceDefinition of all but the first."""
