"""The inputs of a diagnosis: lookup results, the roles, and settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from inference_operator.diagnosis.component import Component
from inference_operator.engines.base import Engine
from inference_operator.views.lookups import LookupResults
from inference_operator.views.pod import PodView


@dataclass(frozen=True, slots=True)
class DiagnosisInputs:
    namespace: str
    roles: Mapping[str, Component]
    """The roles by name; pods of other components, such as routers, have none."""
    lookups: LookupResults
    read_logs: bool
    """Whether the settings allow the operator to read logs."""
    nodes_visible: bool
    """Whether the operator may look at nodes."""
    now: datetime
    one_node_claim: str = ""
    """Name of the engines' claim, if pods on one node only can mount it; empty if not."""

    def engine_of(self, pod: PodView) -> Engine | None:
        role = self.roles.get(pod.component)
        return role.engine if role else None
