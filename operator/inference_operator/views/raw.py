"""Readers for parts of Kubernetes objects that others wrote and that may have any shape."""

from collections.abc import Iterable
from datetime import datetime

from inference_operator.manifest import Manifest


def mapping(parent: Manifest, *path: str) -> Manifest:
    """The object at a path of fields; an empty object if there is something else."""
    for name in path:
        part = parent.get(name)
        parent = part if isinstance(part, dict) else {}
    return parent


def annotations(manifest: Manifest | None) -> Manifest:
    return mapping(manifest or {}, "metadata", "annotations")


def objects(parent: Manifest, name: str) -> Iterable[Manifest]:
    items = parent.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def named(items: Iterable[Manifest], name: str) -> Manifest:
    return next((item for item in items if item.get("name") == name), {})


def condition(status: Manifest, kind: str) -> Manifest:
    return next((item for item in objects(status, "conditions") if item.get("type") == kind), {})


def timestamp(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
