"""A foreign autoscaler while the operator decides: on the Deployment of the engines, or on `/scale` of the resource.

An autoscaler on the Deployment writes the same field as the operator. Then the operator leaves `replicas` alone;
otherwise both would overwrite each other. One on `/scale` writes `spec.replicas`, which has no effect with the backend
`BuiltIn`.

Each write to a `/scale` subresource leaves its writer in the object's managedFields. After such a write the operator
leaves `replicas` alone, too, until it has listed the autoscalers of the namespace.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.autoscaling import AutoscalingBackend
from inference_operator.api.conditions import Condition
from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Spec
from inference_operator.manifest import DEPLOYMENT, KIND, Key, Manifest
from inference_operator.views.lookups import (
    ForeignAutoscaler,
    ForeignAutoscalers,
    ForeignAutoscalersLookup,
    LookupResults,
)
from inference_operator.views.raw import mapping, objects


@dataclass(frozen=True, slots=True)
class ScalingConflict:
    lookup: ForeignAutoscalersLookup
    is_frozen: bool = False
    """Whether the live number of engines stays as it is."""
    on_workload: Sequence[ForeignAutoscaler] = ()
    on_scale: Sequence[ForeignAutoscaler] = ()

    @property
    def is_open(self) -> bool:
        """Whether the number of engines has an unknown writer, until the autoscalers are listed."""
        return self.is_frozen and not self.on_workload


def scaling_conflict(
    key: Key,
    spec: Spec,
    workload: str,
    live: Manifest | None,
    before: Condition | None,
    *,
    lookups: LookupResults,
    has_scale: bool = True,
) -> ScalingConflict | None:
    autoscaling = spec.autoscaling
    if autoscaling is None or autoscaling.backend is not AutoscalingBackend.BUILT_IN:
        return None
    writers = scale_writers(live)
    was_reported = before is not None and before.reason == Reason.AUTOSCALER_CONFLICT
    trace = f"{spec.replicas} {writers}".strip()
    name = key.name if has_scale else workload
    lookup = ForeignAutoscalersLookup(key.namespace, name, trace, often=bool(writers) or was_reported)
    result = lookups.get(lookup)
    if result is None or (isinstance(result, ForeignAutoscalers) and result.seen != trace):
        was_held = was_reported and before is not None and before.status == "False"
        return ScalingConflict(lookup, is_frozen=bool(writers) or was_held)
    foreign = result.autoscalers if isinstance(result, ForeignAutoscalers) else ()
    targets = {
        (DEPLOYMENT.name, workload): (on_workload := list[ForeignAutoscaler]()),
        (KIND, key.name): (on_scale := list[ForeignAutoscaler]()),
    }
    own = (KIND, key.name)  # which goes with its backend
    for autoscaler in foreign:
        if (autoscaler.kind, autoscaler.name) != own:
            targets.get((autoscaler.target_kind, autoscaler.target_name), []).append(autoscaler)
    return ScalingConflict(lookup, bool(on_workload), tuple(on_workload), tuple(on_scale) if has_scale else ())


def scale_writers(live: Manifest | None) -> str:
    """Who wrote the replicas of a Deployment through `/scale`, and when; empty if nobody did since the last apply."""
    fields = objects(mapping(live or {}, "metadata"), "managedFields")
    return " ".join(
        sorted(f"{field.get('manager')}@{field.get('time')}" for field in fields if field.get("subresource") == "scale")
    )
