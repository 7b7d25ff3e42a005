"""The resource as the API server would store it after `kubectl apply` of a file, by a dry run that writes nothing.

- `kubectl apply` has left its annotation on the live resource: the same three-way merge is made.
- Otherwise the file is applied on the server's side, under the field manager that applied it before.
"""

import json
from collections.abc import Mapping

from inference_operator.cli.api_server_rules import stored
from inference_operator.cli.managed_fields import applier
from inference_operator.controller.cluster import ClusterError, RejectedError
from inference_operator.kube.client import APPLY, MERGE, Api
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest, Ref
from inference_operator.views.raw import annotations, mapping

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation of client-side `kubectl apply` (Kubernetes 1.36, k8s.io/api/core/v1/annotation_key_constants.go)."""
DEFAULT_MANAGER = "kubectl"
"""Field manager of `kubectl apply --server-side`."""


async def stored_edit(api: Api, document: Manifest, live: Manifest | None) -> Manifest:
    """The resource after an apply of a file.

    Args:
        api: the API server.
        document: the file's resource, with its namespace.
        live: the live resource; None if there is none.

    Raises:
        RejectedError: the API server refuses it, or the user has no right to patch.
    """
    kind, meta = INFERENCE_DEPLOYMENT, document["metadata"]
    ref = Ref(kind, meta["namespace"], meta["name"])
    before = last_applied(live)
    if live is not None and before is not None:
        body = merge_patch(before, _content(document), _content(live))
        return await api.request("PATCH", ref.path, kind, query=_DRY, body=body, patch=MERGE)
    query = {**_DRY, "force": "true", "fieldManager": (live and applier(live)) or DEFAULT_MANAGER}
    body = {**document, "metadata": {name: meta[name] for name in _OF_USERS if name in meta}}
    try:
        return await api.request("PATCH", ref.path, kind, query=query, body=body, patch=APPLY)
    except ClusterError as error:
        if _UNTYPED not in error.cause:
            raise
        raise RejectedError(error.cause.rpartition("): ")[2]) from error


_DRY = {"dryRun": "All", "fieldValidation": "Strict"}
_UNTYPED = "failed to create typed patch object"
"""Server-side apply's answer to a field that the schema does not have, with HTTP status 500 (Kubernetes 1.36)."""
_OF_USERS = ("namespace", "name", "labels", "annotations")
"""Metadata that a file may have."""


def last_applied(live: Manifest | None) -> Manifest | None:
    """The content that client-side `kubectl apply` applied last; None if it did not."""
    try:
        found = json.loads(annotations(live).get(LAST_APPLIED, "null"))
    except ValueError:
        return None
    return _content(found) if isinstance(found, dict) else None


def merge_patch(before: Mapping[str, object], wanted: Mapping[str, object], live: Mapping[str, object]) -> Manifest:
    """The JSON merge patch of a three-way merge: fields that left the file become null, others as in the file.

    Examples:
        >>> before = {"spec": {"replicas": 2, "engine": {"args": ["--seed=1"]}}}
        >>> merge_patch(before, {"spec": {"replicas": 3}}, {**before, "status": {}})
        {'spec': {'replicas': 3, 'engine': None}}
    """
    patch: Manifest = {}
    for name, value in wanted.items():
        old, now = before.get(name), live.get(name)
        if isinstance(value, dict) and isinstance(now, dict):
            if part := merge_patch(old if isinstance(old, dict) else {}, value, now):
                patch[name] = part
        elif value != now:
            patch[name] = value
    patch.update(dict.fromkeys(name for name in before if name not in wanted and name in live))
    return patch


def _content(resource: Manifest) -> Manifest:
    """The parts that an apply compares."""
    meta = mapping(resource, "metadata")
    kept = {name: mapping(meta, name) for name in ("labels", "annotations") if mapping(meta, name)}
    kept = {name: {key: value for key, value in part.items() if key != LAST_APPLIED} for name, part in kept.items()}
    spec = stored(resource.get("spec"))
    return {"metadata": kept, "spec": spec if isinstance(spec, dict) else {}}
