"""Carry out one change, with the rule of who owns what written once."""

import logging
from contextlib import suppress

from inference_operator.manifest import Manifest, Owner
from inference_operator.observed.answer import Answer, Applied, Conflict, Deleted, Failed, Rejected, Waiting
from inference_operator.reconcile.changes import Apply, Change, Delete
from inference_operator.reconcile.cluster import Cluster, ClusterError, ConflictError, NotFoundError, RejectedError
from inference_operator.resources.names import MANAGED_BY_LABEL, MANAGER

log = logging.getLogger(__name__)


async def execute(cluster: Cluster, change: Change) -> Answer:
    """Carry out a change. Whatever becomes of it is an answer, so that one child never stops the others."""
    try:
        answer = await (_delete(cluster, change) if isinstance(change, Delete) else _apply(cluster, change))
    except RejectedError as error:
        answer = Rejected(change.ref, error.cause)
    except ClusterError as error:
        log.warning("%s %s: %s", type(change).__name__, change.ref, error)
        return Failed(change.ref, error.cause, error.retry_after)
    log.info("%s %s: %s: %s", type(change).__name__, change.ref, change.why, type(answer).__name__)
    return answer


async def _delete(cluster: Cluster, change: Delete) -> Answer:
    try:
        await cluster.delete(change.ref, uid=change.uid, version=change.version, grace_seconds=change.grace_seconds)
    except NotFoundError:
        return Deleted(change.ref)
    except ConflictError:
        found = await cluster.get(change.ref)
        if found is not None and found["metadata"]["uid"] == change.uid:
            return Failed(change.ref, "it has changed meanwhile")
    return Deleted(change.ref)


async def _apply(cluster: Cluster, change: Apply) -> Answer:
    try:
        if change.uid is not None:
            with suppress(ConflictError):  # what was known is gone: look anew
                return Applied(await cluster.apply(change.ref, _with_uid(change.manifest, change.uid), force=True))
        return await _apply_unknown(cluster, change)
    except ConflictError:
        return Waiting(change.ref)  # it changes under our hands: the next look tells to what


async def _apply_unknown(cluster: Cluster, change: Apply) -> Answer:
    """Make it where nothing has its name; else look whose that is: it may be another's, or still be going.

    Ours is applied by force and to that very object; a new one never goes over somebody's fields.
    """
    with suppress(ConflictError):
        return Applied(await cluster.create(change.ref, change.manifest))
    found = await cluster.get(change.ref)
    if found is None or "deletionTimestamp" in found["metadata"]:
        return Waiting(change.ref)
    if change.owner.owns(found):
        body = _with_uid(change.manifest, found["metadata"]["uid"])
        return Applied(await cluster.apply(change.ref, body, force=True))
    return Waiting(change.ref) if _orphan_of_earlier(found, change.owner) else Conflict(change.ref, _holder(found))


def _with_uid(manifest: Manifest, uid: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "uid": uid}}


def _orphan_of_earlier(found: Manifest, owner: Owner) -> bool:
    """Whether it belonged to a deleted InferenceDeployment of the same name, which the garbage collector is after."""
    references = found["metadata"].get("ownerReferences") or ()
    return any(
        r.get("kind") == owner.reference["kind"] and r.get("name") == owner.key.name and r.get("controller")
        for r in references
    )


def _holder(found: Manifest) -> str:
    for reference in found["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return f"{reference.get('kind')} {reference.get('name')}"
    if (found["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER:
        return "an InferenceDeployment that is gone, which left it behind"
    managers = {str(f.get("manager")) for f in found["metadata"].get("managedFields") or ()}
    return f"somebody else (written by {', '.join(sorted(managers))})" if managers else "somebody else"
