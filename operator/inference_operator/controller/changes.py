"""Computes the changes that bring the live objects to the desired state."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from inference_operator.autoscaling.removal_order import DeletionCost
from inference_operator.controller.drift import first_drift
from inference_operator.jobs.placement import mounted_claims
from inference_operator.manifest import CLAIM, CONFIG_MAP, SECRET, Manifest, Owner, Ref
from inference_operator.objects.child import RETAIN_ANNOTATION, adopted_version
from inference_operator.objects.names import is_role
from inference_operator.pipeline.adapter_lists import ListUpdate
from inference_operator.status.write_results import Applied, Present, WriteResult
from inference_operator.views.pod import ADAPTERS_ANNOTATION, DELETION_COST_ANNOTATION, TRAFFIC_LABEL
from inference_operator.views.raw import mapping, objects
from inference_operator.workload.stall import Removal
from inference_operator.workload.traffic import TrafficChange


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply an object's desired state."""

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
    """Delete an object of ours that is no longer desired."""

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
    removals: Sequence[Removal],
    owner: Owner,
    *,
    deletion_costs: Iterable[DeletionCost] = (),
    traffic: Iterable[TrafficChange] = (),
    list_updates: Iterable[ListUpdate] = (),
    engine_key: Manifest | None = None,
) -> list[Change]:
    """The changes from the live to the desired state, in order; empty if there is no drift.

    - Deletion costs come first: a ReplicaSet reads them when it has too many pods.
    - Desired objects are applied where they are absent or drifted, in the order of `desired`.
    - Live objects that are not desired are deleted, but not those with the retain annotation.
    - An object that is being deleted is left alone. It is created again when it is gone.

    Args:
        live: the children that exist.
        desired: the children that should exist.
        removals: pods to replace; their Deployment creates new ones.
        owner: the owner of all of them.
        deletion_costs: pods that should go later or earlier than others when there are fewer.
        traffic: engines to take out of traffic, or back in; not those that are replaced.
        list_updates: pods that have an earlier list of adapters; not those that are replaced.
        engine_key: the Secret to create if it does not exist, without its key.
    """
    result: list[Change] = [_deletion_cost(cost) for cost in deletion_costs]
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
        if ref not in desired and not _is_deleting(child) and not _is_retained(child):
            result.append(Delete(ref, child["metadata"]["uid"], child["metadata"].get("resourceVersion")))
    result.extend(Delete(pod.ref, pod.uid, grace_seconds=pod.grace_seconds, why=pod.why) for pod in removals)
    removed = {pod.uid for pod in removals}
    result.extend(_label(change) for change in traffic if change.uid not in removed)
    result.extend(_told(update) for update in list_updates if update.pod.uid not in removed)
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
    pod = mapping(mapping(mapping(change.manifest, "spec"), "template"), "spec")
    config_maps = [mapping(volume, "configMap").get("name") for volume in objects(pod, "volumes")]
    keys = [mapping(volume, "secret").get("secretName") for volume in objects(pod, "volumes")]
    for kind, names in ((CLAIM, mounted_claims(pod).values()), (CONFIG_MAP, config_maps), (SECRET, keys)):
        yield from (Ref(kind, change.ref.namespace, name) for name in names if name)


def _deletion_cost(cost: DeletionCost) -> Label:
    labels = _traffic_label(in_traffic=cost.traffic)
    return Label(cost.ref, cost.uid, labels, cost.why, {DELETION_COST_ANNOTATION: str(cost.cost)})


def _label(change: TrafficChange) -> Label:
    return Label(change.ref, change.uid, _traffic_label(in_traffic=change.in_traffic), change.why)


def _traffic_label(*, in_traffic: bool | None) -> Mapping[str, str]:
    """The traffic label of an engine; None for a router, which has none."""
    return {} if in_traffic is None else {TRAFFIC_LABEL: "true" if in_traffic else "false"}


def _told(update: ListUpdate) -> Label:
    """The annotation with which the kubelet brings the list. What else of the pod is ours is sent again with it."""
    pod, annotations = update.pod, {ADAPTERS_ANNOTATION: update.list_hash}
    labels = _traffic_label(in_traffic=pod.traffic if is_role(pod.component) else None)
    if pod.deletion_cost:
        annotations[DELETION_COST_ANNOTATION] = str(pod.deletion_cost)
    return Label(update.ref, pod.uid, labels, "the list of adapters has changed", annotations)


def _is_deleting(manifest: Manifest) -> bool:
    return "deletionTimestamp" in manifest["metadata"]


def _is_retained(manifest: Manifest) -> bool:
    annotations = manifest["metadata"].get("annotations") or {}
    return annotations.get(RETAIN_ANNOTATION) == "true"
