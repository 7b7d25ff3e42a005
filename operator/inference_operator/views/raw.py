"""Parts of raw objects, whatever shape they have: somebody else wrote them."""

from collections.abc import Iterable
from datetime import datetime

from inference_operator.manifest import Manifest


def mapping(parent: Manifest, name: str) -> Manifest:
    """A part that is an object; an empty one where it is not.

    Examples:
        >>> mapping({"status": {"phase": "Running"}}, "status"), mapping({"status": None}, "status")
        ({'phase': 'Running'}, {})
    """
    part = parent.get(name)
    return part if isinstance(part, dict) else {}


def annotations(manifest: Manifest | None) -> Manifest:
    """The annotations of an object; none where it is not there.

    Examples:
        >>> annotations({"metadata": {"annotations": {"a": "b"}}}), annotations(None)
        ({'a': 'b'}, {})
    """
    return mapping(mapping(manifest or {}, "metadata"), "annotations")


def objects(parent: Manifest, name: str) -> Iterable[Manifest]:
    """The objects of a part that is a list.

    Examples:
        >>> objects({"containers": [{"name": "engine"}, None]}, "containers"), objects({}, "containers")
        ([{'name': 'engine'}], [])
    """
    items = parent.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def condition(status: Manifest, kind: str) -> Manifest:
    """The condition of a type; an empty object where there is none.

    Examples:
        >>> condition({"conditions": [{"type": "Ready", "status": "True"}]}, "Ready")["status"]
        'True'
    """
    return next((one for one in objects(status, "conditions") if one.get("type") == kind), {})


def timestamp(text: object) -> datetime | None:
    """A Kubernetes time, or None.

    Examples:
        >>> timestamp("2026-01-02T03:04:05Z").isoformat()
        '2026-01-02T03:04:05+00:00'
    """
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
