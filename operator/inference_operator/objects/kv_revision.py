"""The revision of KV caches in a pod template: engines of equal revisions alone send each other KV caches."""

from inference_operator.manifest import Manifest
from inference_operator.views.raw import annotations

_ANNOTATION = "inference-operator.dev/kv-revision"


def revision_annotation(revision: str) -> dict[str, str]:
    return {_ANNOTATION: revision} if revision else {}


def kv_revision(template: Manifest) -> str:
    """The revision of a template; empty for engines that get and give no KV cache."""
    return str(annotations(template).get(_ANNOTATION, ""))
