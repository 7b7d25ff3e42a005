"""The few figures of an InferenceDeployment that its metrics tell, read once when the object enters the cache."""

from dataclasses import dataclass
from functools import lru_cache

from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping, objects

ConditionState = tuple[str, str, str]
"""Type, status and reason of a condition."""


@dataclass(frozen=True, slots=True)
class ResourceFigures:
    desired: int
    """Engines that the autoscaler wants; without one, those of the spec."""
    conditions: tuple[ConditionState, ...]
    gpu: str
    """Kind of GPU that the engines were sized for; empty if it is unknown."""
    gpus_per_replica: int
    """GPUs of one engine; 0 before sizing, and on CPUs."""
    startup_step: str
    """Step of the engine that is furthest in its start; empty while none starts."""
    max_replicas: int
    """Most engines that autoscaling may want; 0 without autoscaling."""


def resource_figures(resource: Manifest) -> ResourceFigures:
    status = mapping(resource, "status")
    plan = mapping(status, "plan")
    on_gpus = plan.get("device") != "CPU"
    spec = mapping(resource, "spec")
    decided = mapping(status, "autoscaling").get("desiredReplicas") if "autoscaling" in spec else None
    most = mapping(spec, "autoscaling").get("maxReplicas", 0)
    desired = spec.get("replicas", 1) if decided is None else decided
    return ResourceFigures(
        desired=desired if isinstance(desired, int) else 1,
        conditions=tuple(_state(*(str(c.get(name, "")) for name in _FIELDS)) for c in objects(status, "conditions")),
        gpu=str(plan.get("gpu", "")),
        gpus_per_replica=int(plan.get("gpusPerReplica") or 0) if on_gpus else 0,
        startup_step=str(mapping(status, "startup").get("step", "")),
        max_replicas=most if isinstance(most, int) else 0,
    )


_FIELDS = ("type", "status", "reason")


@lru_cache(maxsize=1000)
def _state(kind: str, status: str, reason: str) -> ConditionState:
    """One tuple for all resources in the same state."""
    return kind, status, reason
