"""Decisions that stand until what they answer changes, kept in an annotation of the engine Deployment.

Nodes that come and go and new releases of the operator must not restart an engine that serves, so what they could
change is written down with the part of the spec that it answers.
"""

import json
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter, ValidationError

from inference_operator.api.status import Status
from inference_operator.sizing.plan import SIZING_RULES, Plan

PLAN_ANNOTATION = "inference-operator.dev/plan"


@dataclass(frozen=True, slots=True)
class Pinned:
    """A plan and an image, and the fingerprint of what was asked for when they were decided."""

    asked: str
    image: str
    plan: Plan
    rules: int = SIZING_RULES
    """Version of the rules that decided."""

    @property
    def text(self) -> str:
        """As stored in the annotation."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


_ADAPTER, _PLAN = TypeAdapter(Pinned), TypeAdapter(Plan)


def mirrored(status: Status) -> Pinned | None:
    """The decisions as status tells them; None where it tells none."""
    if status.plan is None or status.engine is None:
        return None
    try:
        sizes = _PLAN.validate_python(status.plan.model_dump(exclude={"asked"}))
    except ValidationError:
        return None
    return Pinned(status.plan.asked, status.engine.image, sizes)


def pinned(text: str | None) -> Pinned | None:
    """Read the annotation; None where there is none or a hand has broken it."""
    if text is None:
        return None
    try:
        return _ADAPTER.validate_json(text)
    except ValidationError:
        return None
