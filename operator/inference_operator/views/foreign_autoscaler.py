"""View of a HorizontalPodAutoscaler: who made it, and what it scales."""

from dataclasses import dataclass

from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping, objects


@dataclass(frozen=True, slots=True, order=True)
class ForeignAutoscaler:
    """An autoscaler that the operator did not create."""

    kind: str
    """`HorizontalPodAutoscaler`, or the kind of its controlling owner, such as `ScaledObject` of KEDA."""
    name: str
    target_kind: str
    target_name: str

    def __str__(self) -> str:
        return f"{self.kind} `{self.name}`"


def foreign_autoscaler(manifest: Manifest) -> ForeignAutoscaler | None:
    """The view of a HorizontalPodAutoscaler; None for one that is being deleted."""
    meta, target = mapping(manifest, "metadata"), mapping(mapping(manifest, "spec"), "scaleTargetRef")
    if "deletionTimestamp" in meta:
        return None
    owners = [owner for owner in objects(meta, "ownerReferences") if owner.get("controller")]
    owner = owners[0] if owners else {"kind": "HorizontalPodAutoscaler", "name": meta.get("name")}
    return ForeignAutoscaler(
        str(owner.get("kind")), str(owner.get("name")), str(target.get("kind")), str(target.get("name"))
    )
