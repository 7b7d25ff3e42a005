"""The workload of a role: the Deployment of its engines, or the StatefulSets of its groups.

It has both while one replaces the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from inference_operator.api.spec import RolloutStrategy
from inference_operator.manifest import DEPLOYMENT, STATEFUL_SET, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import COMPONENT_LABEL, group_name, members_service_name, selector_labels, slot_of
from inference_operator.objects.scheduling import QUEUE_LABEL, queue_labels
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import GROUP_LABEL, PodView
from inference_operator.views.raw import annotations
from inference_operator.views.samples import Samples
from inference_operator.views.workload import ENGINES_ANNOTATION, PROGRESS_DEADLINE_ANNOTATION, workload_view
from inference_operator.workload.change import WorkloadChange
from inference_operator.workload.deployment import (
    KEPT_ANNOTATIONS,
    engine_deployment,
    progress_deadline_seconds,
    recorded,
    scaled_deployment,
)
from inference_operator.workload.eviction.drain import MOVE_ANNOTATION
from inference_operator.workload.eviction.half_placed import GIVEN_BACK_ANNOTATION
from inference_operator.workload.gang import GangScheduler, gang_of, gang_scheduler
from inference_operator.workload.groups import Groups, LiveGroup, groups, kept_engines
from inference_operator.workload.pinned_template import ENGINE_PIN
from inference_operator.workload.pod_spec import WorkloadInputs


@dataclass(frozen=True, slots=True)
class Workload:
    objects: Sequence[Manifest]
    """Its Deployment or StatefulSets."""
    replicas: int
    """Engines that they should make, those of a surge left out."""
    pod: Manifest


def engine_workload(inputs: WorkloadInputs, change: WorkloadChange, samples: Samples) -> Workload:
    """The workload of the role: of groups, if its plan divides an engine over several nodes; undecided the live one."""
    if change.rollout is None:
        live = inputs.context.live
        return Workload(live.workloads, live.view.desired, live.view.pod_spec or {})
    pod = change.template.content.template["spec"]
    build = _of_groups if inputs.plan.plan.parallel.nodes > 1 else _of_pods
    return Workload(build(inputs, change, samples), change.replicas, pod)


def _of_pods(inputs: WorkloadInputs, change: WorkloadChange, _: Samples) -> Sequence[Manifest]:
    """The Deployment, and old groups that serve until its engines do."""
    template, replicas, live = change.template, change.replicas, inputs.context.live
    deployment = engine_deployment(inputs, change)
    serving = sum(engine.is_serving and engine.template == template.template_hash for engine in live.engines)
    room = kept_engines(change.strategy, replicas, serving=serving, current=min(replicas, serving + 1))
    of_groups = {name for name, engine in live.engines_of_groups.items() if engine.is_serving}
    old = [group for name, group in live.groups.items() if name in of_groups][:room]
    return [deployment, *old]


def _of_groups(inputs: WorkloadInputs, change: WorkloadChange, samples: Samples) -> Sequence[Manifest]:
    """The StatefulSets of the groups, and the old Deployment until they serve in its place."""
    owner = inputs.owner
    sets = wanted_groups(inputs, change, samples)
    live = inputs.context.live.groups
    built = [group_set(inputs, slot, change) for slot in sets.current]
    old = [live[group_name(inputs.name, inputs.role, slot)] for slot in sets.old]
    off = [] if sets.off is None else [live[group_name(inputs.name, inputs.role, sets.off)]]
    deployment = next(
        (workload for workload in inputs.context.live.workloads if workload["kind"] == DEPLOYMENT.name), None
    )
    if deployment is not None and (sets.old_engines or not built):
        old.append(scaled_deployment(deployment, sets.old_engines, owner))
    return [*built, *old, *(scaled_group(group, owner, engines=0, is_off=True) for group in off)]


def scaled_workload(live: Sequence[Manifest], replicas: int, owner: Owner) -> Sequence[Manifest]:
    """The live workload with another number of engines, as it was written: it serves on while its successor waits.

    Groups end where there are too many of them; none is created.
    """
    scaled: list[Manifest] = []
    for number, manifest in enumerate(live):
        if manifest["kind"] == DEPLOYMENT.name:
            scaled.append(scaled_deployment(manifest, replicas, owner))
        elif number < max(1, replicas):
            scaled.append(scaled_group(manifest, owner, engines=replicas, is_off=replicas == 0))
    return scaled


_ANNOTATIONS = (*KEPT_ANNOTATIONS, GIVEN_BACK_ANNOTATION.key, PROGRESS_DEADLINE_ANNOTATION)
"""The annotations by which a group's template and its plan are known, beside the number of engines."""


def wanted_groups(inputs: WorkloadInputs, change: WorkloadChange, samples: Samples) -> Groups:
    """The groups that the role should have. One that moves is replaced as if it were of an earlier template."""
    live, template, moves = inputs.context.live, change.template.template_hash, change.move.groups
    engines = live.engines_of_groups
    live_groups = [
        _live_group(inputs, group, "" if name in moves else template, engines, samples)
        for name, group in live.groups.items()
    ]
    alone = (engine for engine in live.engines if not engine.leader.group and engine.template != template)
    return groups(
        [group for group in live_groups if group is not None],
        _taken(inputs, live.groups, live.pods),
        change.replicas,
        RolloutStrategy.SURGE if moves else change.strategy,
        old_engines=sum(engine.is_serving for engine in alone),
    )


def _live_group(
    inputs: WorkloadInputs, group: Manifest, template: str, engines: Mapping[str, EngineView], samples: Samples
) -> LiveGroup | None:
    name = group["metadata"]["name"]
    slot, engine = slot_of(name, inputs.name, inputs.role), engines.get(name)
    if slot is None or "deletionTimestamp" in group["metadata"]:
        return None
    activity = samples.engines.get(engine.uid) if engine else None
    return LiveGroup(
        slot,
        is_current=workload_view(group).template == template,
        serves=engine is not None and engine.is_serving,
        is_placed=engine is not None and engine.is_scheduled,
        requests=activity.outstanding if activity else 0,
    )


def _taken(inputs: WorkloadInputs, live: Iterable[str], pods: Sequence[PodView]) -> frozenset[int]:
    names = {*live, *(pod.group for pod in pods)}
    slots = (slot_of(name, inputs.name, inputs.role) for name in names)
    return frozenset(slot for slot in slots if slot is not None)


def group_set(inputs: WorkloadInputs, slot: int, change: WorkloadChange) -> Manifest:
    """The StatefulSet of a group of the desired template.

    - Its pods start at once, in any order: they wait for each other (`Parallel`).
    - Nothing replaces its pods in turn (`OnDelete`): all of them have one template.
    - It has no pods for a time if it gave its nodes back for another group.
    """
    name = group_name(inputs.name, inputs.role, slot)
    template, back = change.template, change.yielding
    notes = {
        **recorded(inputs, change),
        **({GIVEN_BACK_ANNOTATION.key: back.texts[name]} if name in back.texts else {}),
        **MOVE_ANNOTATION.entry(change.move.record),
        PROGRESS_DEADLINE_ANNOTATION: str(progress_deadline_seconds(inputs.spec.stated, inputs.process)),
        ENGINES_ANNOTATION: str(change.replicas),
    }
    return _stateful_set(
        name,
        owner=inputs.owner,
        role=inputs.role,
        template=template.content.template,
        notes=notes,
        added_labels=queue_labels(inputs.spec.scheduling),
        gang=_gang(inputs, name),
        pods=0 if name in back.off else inputs.plan.plan.parallel.nodes,
    )


def _gang(inputs: WorkloadInputs, name: str) -> GangScheduler | None:
    """The gang scheduler of a group: what it was created with, if it exists."""
    live = inputs.context.live.groups.get(name)
    return gang_of(live) if live else gang_scheduler(inputs.spec.scheduling, inputs.context.unavailable_kinds)


def scaled_group(live: Manifest, owner: Owner, *, engines: int, is_off: bool = False) -> Manifest:
    """The live StatefulSet of a group as it was written, with another number of engines of its role."""
    meta, spec = live["metadata"], live["spec"]
    labels, notes, template = meta.get("labels") or {}, annotations(live), ENGINE_PIN.read(live)
    if template is None:
        return live
    return _stateful_set(
        meta["name"],
        owner=owner,
        role=labels[COMPONENT_LABEL],
        template=template.content.template,
        notes={**{name: notes[name] for name in _ANNOTATIONS if name in notes}, ENGINES_ANNOTATION: str(engines)},
        added_labels={name: labels[name] for name in (QUEUE_LABEL,) if name in labels},
        gang=gang_of(live),
        pods=0 if is_off else spec.get("replicas", 0),
    )


def _stateful_set(
    name: str,
    *,
    owner: Owner,
    role: str,
    template: Manifest,
    notes: Mapping[str, str],
    added_labels: Mapping[str, str],
    gang: GangScheduler | None,
    pods: int,
) -> Manifest:
    own, meta = {GROUP_LABEL: name}, template["metadata"]
    labelled = {**template, "metadata": {**meta, "labels": {**meta["labels"], **own}}}
    spec = {
        "replicas": pods,
        "revisionHistoryLimit": 1,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "serviceName": members_service_name(owner.key.name, role),
        "selector": {"matchLabels": {**selector_labels(owner.key.name, role), **own}},
        "template": gang.marked(labelled, name) if gang else labelled,
    }
    return child(
        STATEFUL_SET,
        name,
        owner=owner,
        component=role,
        content={"spec": spec},
        annotations=notes,
        added_labels={**added_labels, **own},
    )
