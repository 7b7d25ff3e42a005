"""Computes the changes that bring the live objects to the desired state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from inference_operator.controller.drift import first_drift
from inference_operator.jobs.placement import mounted_claims
from inference_operator.manifest import CLAIM, CONFIG_MAP, POD, SECRET, Manifest, Owner, Ref
from inference_operator.objects.child import RETAIN_ANNOTATION, adopted_version
from inference_operator.objects.names import is_role
from inference_operator.objects.pod_patch import PodDeletion, PodPatch, traffic_label
from inference_operator.status.write_results import Applied, Present, WriteResult
from inference_operator.views.pod import ADAPTERS_ANNOTATION, DELETION_COST_ANNOTATION, PodView
from inference_operator.views.raw import annotations, mapping, objects


@dataclass(frozen=True, slots=True)
class Apply:
    ref: Ref
    manifest: Manifest
    owner: Owner
    uid: str | None
    """The uid of the live object of ours; None if none is cached, and then the object is read first."""
    why: str
    adopts: str | None = None
    """The resourceVersion of a live object that is to be adopted; None: it is ours already, or none is cached."""


@dataclass(frozen=True, slots=True)
class Delete:
    ref: Ref
    uid: str
    version: str | None = None
    """The resourceVersion by which it was decided. An object that has changed since is not deleted."""
    grace_seconds: int | None = None
    """Seconds that its processes have to end; None: the object's own grace period."""
    why: str = "no longer wanted"


@dataclass(frozen=True, slots=True)
class Label:
    """Set labels and annotations of a pod that exists, and leave all others as they are."""

    ref: Ref
    uid: str
    labels: Mapping[str, str]
    why: str
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateKey:
    """Create a Secret with a new random key, unless one of this name exists."""

    ref: Ref
    manifest: Manifest
    why: str = "absent, or not looked for lately"


Change: TypeAlias = Apply | CreateKey | Delete | Label


def changes(
    live: Mapping[Ref, Manifest],
    desired: Mapping[Ref, Manifest],
    pods: Sequence[PodPatch],
    owner: Owner,
    *,
    engine_key: Manifest | None = None,
) -> list[Change]:
    """The changes from the live to the desired state, in order; empty if there is no drift.

    - Deletion costs come first: a ReplicaSet reads them when it has too many pods.
    - Desired objects are applied where they are absent or drifted, in the order of `desired`.
    - Live objects that are not desired are deleted, but not those with the retain annotation.
    - An object that is being deleted is left alone. It is created again when it is gone.
    """
    namespace = owner.key.namespace
    result: list[Change] = [_label(patch, namespace) for patch in pods if patch.deletion_cost is not None]
    if engine_key:
        result.append(CreateKey(Ref.of(engine_key), engine_key))
    for ref, manifest in desired.items():
        child = live.get(ref)
        if child is None:
            result.append(Apply(ref, manifest, owner, None, "absent"))
            continue
        adopts = adopted_version(child, manifest)
        if not _is_deleting(child) and (why := first_drift(child, manifest) or ("to be adopted" if adopts else None)):
            result.append(Apply(ref, manifest, owner, child["metadata"]["uid"], why, adopts))
    for ref, child in live.items():
        is_retained = annotations(child).get(RETAIN_ANNOTATION) == "true"
        if ref not in desired and not _is_deleting(child) and not is_retained:
            result.append(Delete(ref, child["metadata"]["uid"], child["metadata"].get("resourceVersion")))
    result.extend(_deletion(patch.pod, patch.delete, namespace) for patch in pods if patch.delete)
    result.extend(_label(patch, namespace) for patch in pods if patch.deletion_cost is None and not patch.delete)
    return result


def is_held(change: Change, results: Sequence[WriteResult]) -> bool:
    """Whether a change waits for a claim, ConfigMap or Secret, which was to be written before it, and was not.

    Its pods would mount what has that name: an object of somebody else, or an earlier content.
    """
    if not isinstance(change, Apply):
        return False
    unwritten = {result.ref for result in results if not isinstance(result, Applied | Present)}
    return bool(unwritten) and not unwritten.isdisjoint(_mounted(change))


def _mounted(change: Apply) -> Iterator[Ref]:
    pod = mapping(change.manifest, "spec", "template", "spec")
    config_maps = [mapping(volume, "configMap").get("name") for volume in objects(pod, "volumes")]
    keys = [mapping(volume, "secret").get("secretName") for volume in objects(pod, "volumes")]
    for kind, names in ((CLAIM, mounted_claims(pod).values()), (CONFIG_MAP, config_maps), (SECRET, keys)):
        yield from (Ref(kind, change.ref.namespace, name) for name in names if name)


def _deletion(pod: PodView, deletion: PodDeletion, namespace: str) -> Delete:
    ref = Ref(POD, namespace, pod.name)
    return Delete(ref, pod.uid, grace_seconds=deletion.grace_seconds, why=deletion.why)


def _label(patch: PodPatch, namespace: str) -> Label:
    """The labels and annotations of a patch, and what else of the pod is ours.

    Server-side apply removes fields that a later apply omits.
    """
    pod, cost = patch.pod, patch.deletion_cost
    labels = traffic_label(in_traffic=pod.traffic) if is_role(pod.component) else {}
    notes = {ADAPTERS_ANNOTATION: pod.adapters} if pod.adapters else {}
    if cost is not None or pod.deletion_cost:
        notes[DELETION_COST_ANNOTATION] = str(pod.deletion_cost if cost is None else cost)
    ref = Ref(POD, namespace, pod.name)
    return Label(ref, pod.uid, {**labels, **patch.labels}, patch.why, {**notes, **patch.annotations})


def _is_deleting(manifest: Manifest) -> bool:
    return "deletionTimestamp" in manifest["metadata"]
