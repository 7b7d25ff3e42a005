"""The workload of a role: the Deployment of its engines, or the StatefulSets of its groups.

It has both while one replaces the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.manifest import DEPLOYMENT, Manifest, Owner, Ref
from inference_operator.objects.names import group_name
from inference_operator.roles.context import LiveRole
from inference_operator.views.samples import Samples
from inference_operator.workload.change import WorkloadChange
from inference_operator.workload.deployment import engine_deployment, scaled_deployment
from inference_operator.workload.group_sets import group_set, scaled_group, wanted_groups
from inference_operator.workload.groups import kept_engines
from inference_operator.workload.pod_spec import WorkloadInputs


@dataclass(frozen=True, slots=True)
class Workload:
    """The desired workload of a role."""

    objects: Sequence[Manifest]
    """Its Deployment or StatefulSets."""
    replicas: int
    """Engines that they should make, those of a surge left out."""
    pod: Manifest
    """The pod specification of its template."""

    @property
    def refs(self) -> frozenset[Ref]:
        return frozenset(map(Ref.of, self.objects))


def engine_workload(inputs: WorkloadInputs, change: WorkloadChange, samples: Samples) -> Workload:
    """The workload of the role: of groups, if its plan divides an engine over several nodes."""
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


def live_workload(live: LiveRole) -> Workload:
    return Workload(live.workloads, live.view.desired, live.view.pod_spec or {})


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
