"""The few figures of an InferenceDeployment that its metrics tell, read once when the object enters the cache."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping, objects

ConditionState = tuple[str, str, str]
"""Type, status and reason of a condition."""


@dataclass(frozen=True, slots=True)
class EngineGpus:
    kind: str
    """The kind that it was sized for; empty if it is unknown."""
    count: int
    """0 before sizing, and on CPUs."""


@dataclass(frozen=True, slots=True)
class ResourceFigures:
    desired: int
    """Engines that the autoscaler wants; without one, those of the spec."""
    conditions: tuple[ConditionState, ...]
    gpus: Mapping[str, EngineGpus]
    """The GPUs of an engine of each role, where there are several; else those of all engines, under an empty name."""
    startup_step: str
    """Step of the engine that is furthest in its start; empty while none starts."""
    max_replicas: int
    """Most engines that autoscaling may want; 0 without autoscaling."""


def resource_figures(resource: Manifest) -> ResourceFigures:
    status = mapping(resource, "status")
    plans = {str(role.get("name", "")): mapping(role, "plan") for role in objects(status, "roles")}
    spec = mapping(resource, "spec")
    decided = mapping(status, "autoscaling").get("desiredReplicas") if "autoscaling" in spec else None
    most = mapping(spec, "autoscaling").get("maxReplicas", 0)
    desired = spec.get("replicas", 1) if decided is None else decided
    return ResourceFigures(
        desired=desired if isinstance(desired, int) else 1,
        conditions=tuple(_state(*(str(c.get(name, "")) for name in _FIELDS)) for c in objects(status, "conditions")),
        gpus={role: _gpus(plan) for role, plan in (plans or {"": mapping(status, "plan")}).items()},
        startup_step=str(mapping(status, "startup").get("step", "")),
        max_replicas=most if isinstance(most, int) else 0,
    )


def _gpus(plan: Manifest) -> EngineGpus:
    count = int(plan.get("gpusPerReplica") or 0) if plan.get("device") != "CPU" else 0
    return EngineGpus(str(plan.get("gpu", "")), count)


_FIELDS = ("type", "status", "reason")


@lru_cache(maxsize=1000)
def _state(kind: str, status: str, reason: str) -> ConditionState:
    """One tuple for all resources in the same state."""
    return kind, status, reason
