"""Carry out one change, with the rule of who owns what written once."""

from contextlib import suppress

from inference_operator.manifest import Manifest, Owner, Ref
from inference_operator.observed.answer import Answer, Applied, Conflict, Deleted, Rejected, Waiting
from inference_operator.reconcile.changes import Apply, Change, Delete
from inference_operator.reconcile.cluster import Cluster, ConflictError, NotFoundError, RejectedError


async def execute(cluster: Cluster, change: Change) -> Answer:
    """Carry out a change; expected answers are returned, only faults are raised."""
    match change:
        case Delete(ref, uid):
            return await _delete(cluster, ref, uid)
        case Apply(uid=None):
            return await _apply_unknown(cluster, change)
        case Apply(uid=uid):
            return await _apply(cluster, change, uid)


async def _delete(cluster: Cluster, ref: Ref, uid: str) -> Answer:
    try:
        with suppress(NotFoundError, ConflictError):  # gone, or another object by now: ours is not there
            await cluster.delete(ref, uid=uid)
    except RejectedError as error:
        return Rejected(ref, str(error))
    return Deleted(ref)


async def _apply_unknown(cluster: Cluster, change: Apply) -> Answer:
    """Look before the first write: an object of that name may be another's, or still be going."""
    found = await cluster.get(change.ref)
    if found is None:
        return await _apply(cluster, change, None)
    if change.owner.owns(found):
        going = "deletionTimestamp" in found["metadata"]
        return Waiting(change.ref) if going else await _apply(cluster, change, found["metadata"]["uid"])
    if "deletionTimestamp" in found["metadata"] or _orphan_of_earlier(found, change.owner):
        return Waiting(change.ref)
    return Conflict(change.ref, _holder(found))


async def _apply(cluster: Cluster, change: Apply, uid: str | None) -> Answer:
    """Apply; with a uid only to that very object and by force, without one never over somebody's fields."""
    try:
        body = change.manifest if uid is None else _with_uid(change.manifest, uid)
        return Applied(await cluster.apply(change.ref, body, force=uid is not None))
    except ConflictError:
        if uid is None:
            return Conflict(change.ref, "whoever created it a moment ago")
        return Waiting(change.ref)
    except RejectedError as error:
        return Rejected(change.ref, str(error))


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
    managers = {str(f.get("manager")) for f in found["metadata"].get("managedFields") or ()}
    return f"somebody else (written by {', '.join(sorted(managers))})" if managers else "somebody else"
