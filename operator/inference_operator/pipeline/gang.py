"""The part of the objects of gang schedulers: one for each group."""

from collections.abc import Iterable

from inference_operator.manifest import STATEFUL_SET, Manifest, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Part
from inference_operator.workload.gang import pod_group


def pod_groups(inputs: Inputs, planned: Planned, engines: Part) -> Part:
    """A PodGroup for each StatefulSet that has one, before it: its pods are pending without it.

    A live one stays while its kind cannot be listed.
    """
    is_held = planned.hold.holds_others
    built = _built(inputs, inputs.children.values() if is_held else engines.desired.values())
    written = {
        ref: group
        for ref, group in built.items()
        if ref.kind not in inputs.unavailable_kinds and not (is_held and inputs.child(ref))
    }
    kept = {ref: live for ref in built if ref.kind in inputs.unavailable_kinds and (live := inputs.child(ref))}
    return Part(feature=Feature.POD_GROUPS, desired=written, kept=kept)


def _built(inputs: Inputs, objects: Iterable[Manifest]) -> dict[Ref, Manifest]:
    sets = (manifest for manifest in objects if manifest["kind"] == STATEFUL_SET.name)
    return {Ref.of(group): group for manifest in sets if (group := pod_group(manifest, inputs.owner)) is not None}
