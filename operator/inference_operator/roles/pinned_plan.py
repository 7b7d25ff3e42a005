"""The pinned plan: a sizing decision, kept in an annotation of the workload until its inputs change.

Nodes that come and go, and a new release of the operator, must not restart an engine that serves. So the decision is
stored together with a hash of the part of the specification that it depends on. The annotation is the only record: it
has a hash of itself, and one that somebody edited is not read.
"""

from dataclasses import dataclass

from pydantic import TypeAdapter
from pydantic_core import from_json

from inference_operator.manifest import Manifest
from inference_operator.objects.annotation import EDITED, NO_VALUE, Annotation, compact_json
from inference_operator.objects.child import content_hash
from inference_operator.sizing.plan import SIZING_RULES
from inference_operator.sizing.stored_plan import StoredPlan, to_json


@dataclass(frozen=True, slots=True)
class PinnedPlan:
    """A plan, the engine and image that it is for, and the hash of the specification that it was made from."""

    spec_hash: str
    image: str
    plan: StoredPlan
    engine: str
    rules: int = SIZING_RULES
    commit: str = ""
    """The commit of the hub repository that was inspected for it, which engines load; empty if none was."""


_FORM: TypeAdapter[PinnedPlan] = TypeAdapter(PinnedPlan)
_SPEC_HASH, _HASH = "asked", "hash"
"""Keys of the annotation: of the specification's hash, and of the hash of all other keys."""


class PlanAnnotation(Annotation[PinnedPlan]):
    def write(self, value: PinnedPlan) -> str:
        fields = {
            _SPEC_HASH: value.spec_hash,
            "image": value.image,
            "plan": to_json(value.plan),
            "rules": value.rules,
            "engine": value.engine,
        }
        whole = {**fields, "commit": value.commit} if value.commit else fields
        return compact_json({**whole, _HASH: content_hash(whole)})

    def parsed(self, text: str) -> PinnedPlan:
        document = _document(text)
        if document.pop(_HASH, None) != content_hash(document):
            raise ValueError(EDITED)
        return _FORM.validate_python({**document, "spec_hash": document.get(_SPEC_HASH)})

    def engine(self, live: Manifest) -> str:
        """Name of a workload's engine, also if somebody edited the plan; empty if the object has no plan."""
        text = self.text(live)
        try:
            return str(_document(text).get("engine", "")) if text else ""
        except NO_VALUE:
            return ""


def _document(text: str) -> Manifest:
    """The fields of an annotation, whether somebody edited them or not."""
    document = from_json(text)
    if not isinstance(document, dict):
        raise ValueError(EDITED)  # noqa: TRY004 - as for every other text that is no value
    return document


PLAN_ANNOTATION = PlanAnnotation("inference-operator.dev/plan")
