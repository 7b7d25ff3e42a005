"""The fields in which a live object differs from what the operator will write, for people."""

from collections.abc import Iterator

from inference_operator.controller.drift import first_drift
from inference_operator.manifest import Manifest
from inference_operator.objects.child import DESIRED_HASH_ANNOTATION
from inference_operator.views.raw import mapping

_DEEPER = (".metadata", ".spec", ".spec.template", ".spec.template.metadata", ".spec.template.spec")
"""Fields of which each part is compared by itself. Of any other field, the first difference is named."""
_OWN = "inference-operator.dev/"
"""Annotations with this prefix record decisions: they repeat what the specification says."""


def changed_fields(live: Manifest, desired: Manifest) -> list[str]:
    """The paths of fields that change. Records of the operator are named only if nothing else changes.

    Examples:
        >>> live = {"metadata": {"annotations": {"a": "1"}}, "spec": {"replicas": 1, "paused": True}}
        >>> changed_fields(live, {"metadata": {"annotations": {"a": "2"}}, "spec": {"replicas": 3, "paused": True}})
        ['.metadata.annotations.a', '.spec.replicas']
    """
    found = list(_changed(live, desired, ""))
    telling = [path for path in found if f".annotations.{_OWN}" not in path]
    records = [path for path in found if path not in telling and DESIRED_HASH_ANNOTATION not in path]
    return telling or records or ["fields that are no longer wanted"]


def _changed(live: Manifest, desired: Manifest, path: str) -> Iterator[str]:
    for name, value in desired.items():
        here = f"{path}.{name}"
        if isinstance(value, dict) and (here in _DEEPER or here.endswith((".annotations", ".labels"))):
            yield from _changed(mapping(live, name), value, here)
        elif drift := first_drift({name: live[name]} if name in live else {}, {name: value}):
            yield f"{path}{drift}"
