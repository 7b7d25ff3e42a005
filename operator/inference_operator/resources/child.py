"""What all children have in common: labels, owner, and a stamp of everything that was asked for."""

import hashlib
import json
from collections.abc import Mapping

from inference_operator.manifest import Kind, Manifest, Owner
from inference_operator.resources.names import labels

STAMP_ANNOTATION = "inference-operator.dev/stamp"
"""Hash of the child as built. It makes a field that is no longer set a difference too, so that server-side apply
gets to remove it."""

_STAMP_LENGTH = 16


def fingerprint(value: object) -> str:
    """A short hash of JSON-like data, equal for equal data whatever its order.

    Examples:
        >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
        True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_STAMP_LENGTH]


def child(
    kind: Kind,
    name: str,
    *,
    owner: Owner,
    component: str,
    content: Manifest,
    annotations: Mapping[str, str] | None = None,
    added_labels: Mapping[str, str] | None = None,
) -> Manifest:
    """A complete child: address, labels, owner, stamp and content.

    Args:
        kind: kind of the object.
        name: its name, in the owner's namespace.
        owner: whose it is.
        component: `engine` or `router`.
        content: everything beside apiVersion, kind and metadata, in the API server's canonical form.
        annotations: annotations beside the stamp.
        added_labels: labels beside those of every child.
    """
    stamped = fingerprint([content, {**(annotations or {}), **(added_labels or {})}])
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": name,
            "namespace": owner.key.namespace,
            "labels": {**(added_labels or {}), **labels(owner.key.name, component)},
            "annotations": {**(annotations or {}), STAMP_ANNOTATION: stamped},
            "ownerReferences": [owner.reference],
        },
        **content,
    }
