"""The difference between what lives and what is wanted, as a list of changes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from inference_operator.manifest import Manifest, Owner, Ref
from inference_operator.reconcile.covers import difference
from inference_operator.rollout.watchdog import Removal


@dataclass(frozen=True, slots=True)
class Apply:
    """Bring an object to its desired state."""

    ref: Ref
    manifest: Manifest
    owner: Owner
    uid: str | None
    """The uid of the live object that is ours; None where none is known, and then one is looked for first."""
    why: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object of ours that is no longer wanted."""

    ref: Ref
    uid: str
    version: str | None = None
    """The resourceVersion that it was judged by: of an object that has changed since, nothing is deleted."""
    grace_seconds: int | None = None
    """How long its processes may take to end; None leaves it to the object."""
    why: str = "no longer wanted"


Change: TypeAlias = Apply | Delete


def changes(
    live: Mapping[Ref, Manifest], desired: Mapping[Ref, Manifest], removals: Iterable[Removal], owner: Owner
) -> list[Change]:
    """What is to be done; empty where all is well.

    An object that is being deleted is left alone: it is made anew when it is gone.

    Args:
        live: the children that there are.
        desired: the children that are wanted.
        removals: pods that are to be replaced; their Deployment makes them anew.
        owner: whose all of them are.
    """
    result: list[Change] = []
    for ref, manifest in desired.items():
        there = live.get(ref)
        if there is None:
            result.append(Apply(ref, manifest, owner, None, "absent"))
        elif not _going(there) and (gap := difference(there, manifest)):
            result.append(Apply(ref, manifest, owner, there["metadata"]["uid"], gap))
    unwanted = (ref for ref in live if ref not in desired and not _going(live[ref]))
    result.extend(_deletion(ref, live[ref]["metadata"]) for ref in unwanted)
    result.extend(Delete(one.ref, one.uid, grace_seconds=one.grace_seconds, why=one.why) for one in removals)
    return result


def _deletion(ref: Ref, metadata: Manifest) -> Delete:
    return Delete(ref, metadata["uid"], metadata.get("resourceVersion"))


def _going(manifest: Manifest) -> bool:
    return "deletionTimestamp" in manifest["metadata"]
