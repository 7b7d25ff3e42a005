"""A second kind of resource that no file of the operator names: a Roster, which lists the models of its namespace.

`python -m tests.testing.second_kind` runs the operator with both kinds.
"""

from collections.abc import Sequence
from datetime import UTC
from typing import TypeAlias

from pydantic import Field

from inference_operator.api.conditions import Condition
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import Resource, ResourceApi, column
from inference_operator.api.status import ResourceStatus
from inference_operator.api.validation import SpecModel
from inference_operator.app import main
from inference_operator.controller.resource_kind import KINDS, ResourceKind
from inference_operator.manifest import API_VERSION, CONFIG_MAP, INFERENCE_DEPLOYMENT, Kind, Ref
from inference_operator.objects.child import child
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.part import ResourceDecision
from inference_operator.status.events import Event
from inference_operator.status.report import Report, Requeue
from inference_operator.status.write_results import Applied, Failed, WriteResult
from tests.testing.impatient_operator import SEARCH_SECONDS, ImpatientSettings

ROSTER = Kind(API_VERSION, "Roster")
COMPONENT = "roster"


class RosterSpec(SpecModel):
    """What a user writes."""

    title: str = Field("Models", max_length=64, description="First line of the list.")


class RosterStatus(ResourceStatus):
    """What the operator writes."""

    models: int = Field(0, description="Number of models.")


RosterInputs: TypeAlias = Inputs[Resource[RosterSpec, RosterStatus]]


def list_name(name: str) -> str:
    """Name of the ConfigMap with the list."""
    return f"{name}-list"


def decide(inputs: RosterInputs) -> ResourceDecision:
    """One ConfigMap; after a mistake in the specification, what is there."""
    key, spec = inputs.resource.key, inputs.resource.spec
    if isinstance(spec, Refusal):
        return ResourceDecision(desired=inputs.children)
    lines = [spec.title, *sorted(model.key.name for model in inputs.shared.followed)]
    made = child(
        CONFIG_MAP,
        list_name(key.name),
        owner=inputs.owner,
        component=COMPONENT,
        content={"data": {"list": "\n".join(lines)}},
    )
    return ResourceDecision(desired={Ref.of(made): made})


def report(inputs: RosterInputs, _: ResourceDecision, results: Sequence[WriteResult]) -> Report[RosterStatus]:
    """Ready once the list is written; again after a request that failed."""
    spec, unwritten = inputs.resource.spec, [result for result in results if not isinstance(result, Applied)]
    refused = isinstance(spec, Refusal)
    conditions = (
        _condition(ConditionType.READY, Reason.SERVING, inputs, holds=not refused and not unwritten),
        _condition(ConditionType.STALLED, Reason.INVALID_SPEC if refused else Reason.SETTLED, inputs, holds=refused),
    )
    status = RosterStatus(
        observed_generation=inputs.resource.generation,
        conditions=conditions,
        reason=conditions[int(refused)].reason,
        models=len(inputs.shared.followed),
    )
    failed = any(isinstance(result, Failed) for result in unwritten)
    return Report(status, Requeue(backoff=True) if failed else None)


def events(before: RosterStatus, after: RosterStatus) -> Sequence[Event]:
    """One for each change of the number of models."""
    text = f"{after.models} models"
    return [] if before.models == after.models else [Event("Normal", "Listed", text)]


def _condition(kind: ConditionType, reason: Reason, inputs: RosterInputs, *, holds: bool) -> Condition:
    status, former = "True" if holds else "False", inputs.resource.status.condition(kind)
    since = former.last_transition_time if former and former.status == status else None
    return Condition(
        type=kind,
        status="True" if holds else "False",
        reason=reason,
        message="",
        observed_generation=inputs.resource.generation,
        last_transition_time=since or inputs.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


ROSTER_API = ResourceApi(
    ROSTER,
    RosterSpec,
    RosterStatus,
    "A list of the models of a namespace.",
    ("ros",),
    (column("Models", "integer", ".status.models", "Number of models"),),
    (ConditionType.READY, ConditionType.STALLED),
)
ROSTERS = ResourceKind(ROSTER_API, decide, report, events, frozenset({INFERENCE_DEPLOYMENT}))
BOTH = (*KINDS, ROSTERS)

if __name__ == "__main__":
    main(read_settings=ImpatientSettings, search_seconds=SEARCH_SECONDS, kinds=BOTH)
