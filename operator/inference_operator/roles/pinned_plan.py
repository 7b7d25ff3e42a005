"""The pinned plan: a sizing decision, kept in an annotation of the workload until its inputs change.

Nodes that come and go, and a new release of the operator, must not restart an engine that serves. So the decision is
stored together with a hash of the part of the specification that it depends on. The annotation is the only record: it
has a hash of itself, and one that somebody edited is not read.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from inference_operator.engines.registry import VLLM
from inference_operator.manifest import Manifest
from inference_operator.objects.child import content_hash
from inference_operator.objects.json_annotation import compact_json
from inference_operator.sizing.plan import SIZING_RULES
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
        whole = {**fields, "commit": self.commit} if self.commit else fields
        return compact_json({**whole, _HASH: content_hash(whole)})


_ADAPTER: TypeAdapter[PinnedPlan] = TypeAdapter(PinnedPlan)
_HASH = "hash"
"""Key of the hash of all other fields of the annotation."""


def recorded_engine(workload: Manifest) -> str:
    """Name of the engine in a workload's plan annotation; empty if the object has no plan.

    Examples:
        >>> recorded_engine({"metadata": {"annotations": {PLAN_ANNOTATION: '{"engine":"VLLM"}'}}})
        'VLLM'
    """
    document = _document(workload)
    return str(document.get("engine", VLLM)) if document is not None else ""


def pinned_plan(workload: Manifest | None) -> PinnedPlan | None:
    """The plan of a live workload; None if it has none, or if its annotation was edited.

    Builds before the hash wrote annotations without it. These are read as they are.
    """
    document = _document(workload)
    if document is None:
        return None
    found = document.pop(_HASH, None)
    if found not in (None, content_hash(document)):
        return None
    try:
        return _ADAPTER.validate_python(document)
    except (ValidationError, RecursionError):
        return None


def _document(workload: Manifest | None) -> Manifest | None:
    """The fields of the annotation, whether somebody edited them or not; None if they cannot be read."""
    text = annotations(workload).get(PLAN_ANNOTATION)
    try:
        document = from_json(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
