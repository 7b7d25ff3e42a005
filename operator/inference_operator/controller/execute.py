"""Carries out one change. The only place with the rule which existing objects may be written."""

import logging
from contextlib import suppress
from secrets import token_hex

from inference_operator.controller.changes import Apply, Change, CreateKey, Delete, Label
from inference_operator.controller.cluster import (
    AlreadyExistsError,
    Cluster,
    ClusterError,
    ConflictError,
    NotFoundError,
    RejectedError,
)
from inference_operator.engines.programs import KEY_ENTRY
from inference_operator.manifest import Manifest, Owner, controller_of
from inference_operator.objects.child import adopted_version, is_child
from inference_operator.objects.names import MANAGED_BY_LABEL, MANAGER, NAME_LABEL
from inference_operator.status import write_results
from inference_operator.views.raw import mapping

log = logging.getLogger(__name__)

KEY_BYTES = 32
"""Random bytes of a key of engines: as many as those of keys of users (`infd key`)."""


async def execute(cluster: Cluster, change: Change) -> write_results.WriteResult:
    """Carry out a change. Faults are results too, so that one child never blocks the others."""
    try:
        answer = await _answer(cluster, change)
    except RejectedError as error:
        answer = write_results.Rejected(change.ref, error.cause)
    except ClusterError as error:
        log.warning("%s %s: %s", type(change).__name__, change.ref, error)
        return write_results.Failed(change.ref, error.cause, error.retry_after)
    log.info("%s %s: %s: %s", type(change).__name__, change.ref, change.why, type(answer).__name__)
    return answer


async def _answer(cluster: Cluster, change: Change) -> write_results.WriteResult:
    match change:
        case Apply():
            return await _apply(cluster, change)
        case CreateKey():
            return await _create_key(cluster, change)
        case Delete():
            return await _delete(cluster, change)
        case Label():
            return await _set_labels(cluster, change)


async def _create_key(cluster: Cluster, change: CreateKey) -> write_results.WriteResult:
    """Create the Secret with a random key. Nothing keeps the key; whose Secret exists already cannot be seen."""
    with suppress(AlreadyExistsError):
        await cluster.add(change.ref, {**change.manifest, "stringData": {KEY_ENTRY: token_hex(KEY_BYTES)}})
    return write_results.Present(change.ref)


async def _delete(cluster: Cluster, change: Delete) -> write_results.WriteResult:
    try:
        await cluster.delete(change.ref, uid=change.uid, version=change.version, grace_seconds=change.grace_seconds)
    except NotFoundError:
        return write_results.Deleted(change.ref)
    except ConflictError:
        live = await cluster.get(change.ref)
        if live is not None and live["metadata"]["uid"] == change.uid:
            return write_results.Failed(change.ref, "it has changed meanwhile")
    return write_results.Deleted(change.ref)


async def _set_labels(cluster: Cluster, change: Label) -> write_results.WriteResult:
    """Apply labels and annotations to the pod of that uid; a pod that is gone is never created."""
    ref, fields = change.ref, {"labels": change.labels, "annotations": change.annotations}
    set_values = {field: dict(values) for field, values in fields.items() if values}
    try:
        body = ref.manifest({"uid": change.uid, **set_values})
        return write_results.Applied(await cluster.apply(ref, body, force=True))
    except (ConflictError, NotFoundError):
        return write_results.Deleted(ref)


async def _apply(cluster: Cluster, change: Apply) -> write_results.WriteResult:
    try:
        if change.uid is not None:
            with suppress(ConflictError):  # the cached object is gone: read the live one
                return await _apply_known(cluster, change, change.uid, adopts=change.adopts)
        return await _apply_unknown(cluster, change)
    except ConflictError:
        return write_results.Waiting(change.ref)  # it changed while we wrote: the next reconcile sees how


async def _apply_known(cluster: Cluster, change: Apply, uid: str, *, adopts: str | None) -> write_results.WriteResult:
    """Apply to an object of ours. One that is adopted loses the content that others have written."""
    if adopts:
        await cluster.adopt(change.ref, version=adopts, desired=change.manifest)
    meta = {**change.manifest["metadata"], "uid": uid}
    return write_results.Applied(await cluster.apply(change.ref, {**change.manifest, "metadata": meta}, force=True))


async def _apply_unknown(cluster: Cluster, change: Apply) -> write_results.WriteResult:
    """Create an object that is not cached. If its name is taken, read the live object and see who owns it.

    - Being deleted, or gone by now: wait.
    - Ours: apply by force, to that uid only.
    - Of a deleted InferenceDeployment of the same name: wait for the garbage collector.
    - Somebody else's: a conflict; it is not touched.
    """
    with suppress(ConflictError):
        return write_results.Applied(await cluster.create(change.ref, change.manifest))
    live = await cluster.get(change.ref)
    if live is None or "deletionTimestamp" in live["metadata"]:
        return write_results.Waiting(change.ref)
    if is_child(live, change.owner):
        uid, adopts = live["metadata"]["uid"], adopted_version(live, change.manifest)
        return await _apply_known(cluster, change, uid, adopts=adopts)
    if _is_orphan(live, change.owner):
        return write_results.Waiting(change.ref)
    return write_results.Conflict(change.ref, _holder(live), left_behind=_is_left_behind(live, change.manifest))


def _is_orphan(live: Manifest, owner: Owner) -> bool:
    """Whether it belonged to a deleted InferenceDeployment of the same name; the garbage collector will delete it."""
    former = controller_of(live)
    return (former.get("kind"), former.get("name")) == (owner.key.kind.name, owner.key.name)


def _is_left_behind(live: Manifest, desired: Manifest) -> bool:
    """Whether it has no owner, and the labels of the child that is desired."""
    labels, own = mapping(live, "metadata", "labels"), mapping(desired, "metadata", "labels")
    same = all(labels.get(name) == own.get(name) for name in (MANAGED_BY_LABEL, NAME_LABEL))
    return same and not live["metadata"].get("ownerReferences")


def _holder(live: Manifest) -> str:
    if owner := controller_of(live):
        return f"{owner.get('kind')} {owner.get('name')}"
    if mapping(live, "metadata", "labels").get(MANAGED_BY_LABEL) == MANAGER:
        return "an InferenceDeployment that is gone, which left it behind"
    managers = {str(f.get("manager")) for f in live["metadata"].get("managedFields") or ()}
    return f"somebody else (written by {', '.join(sorted(managers))})" if managers else "somebody else"
