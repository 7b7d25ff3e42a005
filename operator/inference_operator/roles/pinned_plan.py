"""The pinned plan: a sizing decision, kept in an annotation of the workload until its inputs change.

Nodes that come and go, and a new release of the operator, must not restart an engine that serves. So the decision is
stored together with a hash of the part of the specification that it depends on.
"""

import json
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from inference_operator.api.status import Status
from inference_operator.engines.registry import VLLM
from inference_operator.manifest import Manifest
from inference_operator.objects.json_annotation import compact_json, parsed_json
from inference_operator.sizing.plan import SIZING_RULES, Plan
from inference_operator.sizing.stored_plan import StoredPlan, to_json
from inference_operator.views.raw import annotations

PLAN_ANNOTATION = "inference-operator.dev/plan"


@dataclass(frozen=True, slots=True)
class PinnedPlan:
    """A plan, the engine and image that it is for, and the hash of the specification that it was made from."""

    spec_hash: Annotated[str, Field(validation_alias="asked")]
    """In the annotation it has the key `asked`."""
    image: str
    plan: StoredPlan
    rules: int = SIZING_RULES
    """Version of the sizing rules that made it."""
    engine: str = VLLM
    """Name of the engine in the registry."""
    commit: str = ""
    """The commit of the hub repository that was inspected for it, which engines load; empty if none was."""

    @property
    def text(self) -> str:
        """The annotation's value."""
        fields = {
            "asked": self.spec_hash,
            "image": self.image,
            "plan": to_json(self.plan),
            "rules": self.rules,
            "engine": self.engine,
        }
        return compact_json({**fields, "commit": self.commit} if self.commit else fields)


_ADAPTER: TypeAdapter[PinnedPlan] = TypeAdapter(PinnedPlan)
_PLAN: TypeAdapter[Plan] = TypeAdapter(StoredPlan)


def plan_from_status(status: Status, *, engine: str) -> PinnedPlan | None:
    """The plan that status shows, for the engine of this name; None if status shows none.

    A plan without a hash is incomplete: the API server has dropped fields that its CRD does not have.
    """
    if status.plan is None or status.engine is None or not status.plan.spec_hash:
        return None
    try:
        sizes = _PLAN.validate_python(status.plan.model_dump(exclude={"spec_hash"}))
    except ValidationError:
        return None
    engine_status = status.engine
    return PinnedPlan(
        status.plan.spec_hash, engine_status.image, sizes, engine=engine, commit=engine_status.model_commit
    )


def completed(shown: PinnedPlan, annotated: PinnedPlan) -> PinnedPlan:
    """The plan that status shows, completed from the annotation if that is the same plan otherwise.

    A CRD older than the operator drops `modelCommit` and `leftToEngine` from status. Without them engines would get
    other arguments and restart.
    """
    commit = shown.commit or annotated.commit
    left = shown.plan.left_to_engine or annotated.plan.left_to_engine
    whole = replace(shown, commit=commit, plan=replace(shown.plan, left_to_engine=left))
    return whole if whole == replace(annotated, rules=whole.rules) else shown


def recorded_engine(workload: Manifest) -> str:
    """Name of the engine in a workload's plan annotation; empty if the object has no plan.

    Examples:
        >>> recorded_engine({"metadata": {"annotations": {PLAN_ANNOTATION: '{"engine":"VLLM"}'}}})
        'VLLM'
    """
    text = annotations(workload).get(PLAN_ANNOTATION)
    try:
        document = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return ""
    return str(document.get("engine", VLLM)) if isinstance(document, dict) else ""


def pinned_plan(text: object) -> PinnedPlan | None:
    """Parse the annotation; None if it is absent, or was edited into something else."""
    return parsed_json(text, _ADAPTER)
