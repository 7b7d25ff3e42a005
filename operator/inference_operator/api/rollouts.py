"""The owner's setting `rollouts`: how many InferenceDeployments the owner's own changes replace pods of at a time."""

from pydantic import Field

from inference_operator.api.time_window import TimeWindow
from inference_operator.api.validation import SpecModel
from inference_operator.manifest import Key

MAX_CONCURRENT = 10
"""Default: a bad setting reaches ten services at most, and ten pods more than usual find room on a small cluster. A
thousand services whose two routers take half a minute each are done in two hours."""
LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""A DNS label (RFC 1123), the format of namespaces and of the names of InferenceDeployments."""


class RolloutSettings(SpecModel):
    """How a change of the administrator's settings reaches all InferenceDeployments."""

    max_concurrent: int = Field(MAX_CONCURRENT, ge=1, le=10_000)
    """InferenceDeployments whose pods are replaced at a time."""
    canary: str = Field("", pattern=f"^({LABEL}/{LABEL})?$")
    """Namespace and name of the InferenceDeployment that changes first. All others wait until it is healthy."""

    renewal: TimeWindow | None = None
    """When engines that keep the image or pod template of an earlier release are replaced; None for never: until their
    resource is edited."""

    @property
    def canary_key(self) -> Key | None:
        """The InferenceDeployment that changes first; None if any may."""
        namespace, _, name = self.canary.partition("/")
        return Key(namespace, name) if name else None
