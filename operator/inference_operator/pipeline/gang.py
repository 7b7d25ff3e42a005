"""The outcome with the objects of gang schedulers: one for each group."""

from collections.abc import Mapping
from dataclasses import replace

from inference_operator.manifest import STATEFUL_SET, Manifest, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Planned
from inference_operator.workload.gang import pod_group


def with_pod_groups(inputs: Inputs, found: Outcome) -> Outcome:
    """The outcome with a PodGroup for each StatefulSet that has one, before it: its pods are pending without it."""
    if not isinstance(found, Planned):
        return found
    return replace(found, desired={**_pod_groups(inputs, found.desired), **found.desired})


def _pod_groups(inputs: Inputs, desired: Mapping[Ref, Manifest]) -> Mapping[Ref, Manifest]:
    """The PodGroups; a live one stays while its kind cannot be listed."""
    groups = (pod_group(one, inputs.owner) for ref, one in desired.items() if ref.kind == STATEFUL_SET)
    built = {Ref.of(group): group for group in groups if group is not None}
    found = {ref: inputs.child(ref) if ref.kind in inputs.unavailable_kinds else group for ref, group in built.items()}
    return {ref: group for ref, group in found.items() if group is not None}
