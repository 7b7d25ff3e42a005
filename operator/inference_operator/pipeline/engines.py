"""The part of the engines of all roles: their objects, and the live workloads while new engines wait for the model."""

from collections.abc import Mapping, Sequence

from inference_operator.manifest import NETWORK_POLICY, SERVICE, Manifest, Owner, Ref
from inference_operator.objects.names import component_of
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Part
from inference_operator.pipeline.role import Role
from inference_operator.sentences import sentences
from inference_operator.workload.workload import scaled_workload


def engines(inputs: Inputs, planned: Planned) -> Part:
    roles = planned.roles
    return Part(
        feature=Feature.ENGINES,
        desired=_objects(inputs, planned),
        lookups=tuple(lookup for role in roles for lookup in role.lookups),
        due=min((role.change.due for role in roles if role.change.due), default=None),
        notice=sentences(*(role.notice for role in roles)),
    )


def _objects(inputs: Inputs, planned: Planned) -> Mapping[Ref, Manifest]:
    hold, roles = planned.hold, planned.roles
    objects = {ref: manifest for role in roles for ref, manifest in role.objects.items()}
    if not hold.holds_engines:
        return objects
    # The former model serves until the switch. It may scale, to as many engines as are wanted.
    lives = (live for role in roles for live in _workloads(role, inputs.owner, scales=hold.scales))
    serving = {Ref.of(live): live for live in lives}
    if hold.holds_others:
        return serving if hold.scales else {}
    workloads = {Ref.of(manifest) for role in roles for manifest in role.workload.objects}
    others = {ref: manifest for ref, manifest in objects.items() if ref not in workloads}
    paths = {ref: live for ref, live in _paths(inputs, roles).items() if ref not in planned.router.objects}
    return {**others, **paths, **serving}


def _paths(inputs: Inputs, roles: Sequence[Role]) -> Mapping[Ref, Manifest]:
    """The live Services and NetworkPolicies of live workloads: those of groups would select no pod of a Deployment."""
    serving = {role.context.live.name for role in roles if role.context.live.workloads}
    return {
        ref: live
        for ref, live in inputs.children.items()
        if ref.kind in (SERVICE, NETWORK_POLICY) and component_of(live) in serving
    }


def _workloads(role: Role, owner: Owner, *, scales: bool) -> Sequence[Manifest]:
    live = role.context.live.workloads
    return scaled_workload(live, role.workload.replicas, owner) if scales else live
