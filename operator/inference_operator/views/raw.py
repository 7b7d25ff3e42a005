"""Readers for parts of Kubernetes objects that others wrote and that may have any shape."""

from collections.abc import Iterable
from datetime import datetime

from inference_operator.manifest import Manifest


def mapping(parent: Manifest, name: str) -> Manifest:
    """The field's value if it is an object, otherwise an empty object."""
    part = parent.get(name)
    return part if isinstance(part, dict) else {}


def annotations(manifest: Manifest | None) -> Manifest:
    return mapping(mapping(manifest or {}, "metadata"), "annotations")


def objects(parent: Manifest, name: str) -> Iterable[Manifest]:
    items = parent.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def condition(status: Manifest, kind: str) -> Manifest:
    return next((item for item in objects(status, "conditions") if item.get("type") == kind), {})


def timestamp(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
