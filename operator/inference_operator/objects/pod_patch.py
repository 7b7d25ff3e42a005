"""What a feature changes of a pod that exists."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inference_operator.api.reasons import Reason
from inference_operator.views.pod import TRAFFIC_LABEL, PodView


@dataclass(frozen=True, slots=True)
class PodDeletion:
    why: str
    reason: Reason
    grace_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPatch:
    """New values of some fields of a pod; all others stay. Of each pod an outcome has at most one."""

    pod: PodView
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    deletion_cost: int | None = None
    """Of several pods a ReplicaSet deletes the one with the lowest cost first. It is written before all objects."""
    why: str = ""
    """Why it gets these values, for the log."""
    delete: PodDeletion | None = None


def traffic_label(*, in_traffic: bool) -> Mapping[str, str]:
    return {TRAFFIC_LABEL: "true" if in_traffic else "false"}
