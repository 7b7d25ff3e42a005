"""`spec.hardware.network`: the network between the pods of an engine over several nodes."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from inference_operator.api.validation import EXTENDED_RESOURCE, MAX_LABEL_KEY_LENGTH, CelRules, Rule, SpecModel

MAX_DEVICES = 64
"""More than the network devices of any server: 32 on Amazon's `p5.48xlarge` (Amazon EC2 user guide, "EFA")."""

_NOT_OF_KUBERNETES = Rule(
    "!self.contains('kubernetes.io/')",
    lambda name: "kubernetes.io/" not in name,
    "must be the resource of a device plugin, for example `rdma/hca_shared_devices_a`",
)
"""Kubernetes keeps that domain for its own resources (1.36, pkg/apis/core/v1/helper, IsExtendedResourceName)."""

DeviceResource = Annotated[
    str,
    StringConstraints(min_length=3, max_length=MAX_LABEL_KEY_LENGTH, pattern=f"^{EXTENDED_RESOURCE}$"),
    CelRules(_NOT_OF_KUBERNETES),
]
InterfaceName = Annotated[str, StringConstraints(max_length=15, pattern="^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,14}$")]
"""The name of a network interface, at most 15 characters (Linux, include/uapi/linux/if.h, IFNAMSIZ)."""


class NetworkSpec(SpecModel):
    resource: DeviceResource | None = Field(
        None,
        description="Extended resource of the network devices, for example `rdma/hca_shared_devices_a` or"
        " `vpc.amazonaws.com/efa`. Default: none. Change: rolling restart with new sizing.",
    )
    count: int | None = Field(
        None,
        ge=1,
        le=MAX_DEVICES,
        description="Devices of each pod. Default: 1. Change: rolling restart with new sizing.",
    )
    interface: InterfaceName | None = Field(
        None,
        description="Network interface in the pod that NCCL and gloo use, and without `resource` UCX, for example"
        " `net1`. Default: their choice. Change: rolling restart.",
    )
    ipc_lock: bool | None = Field(
        None,
        description="Whether engines get the capability `IPC_LOCK`, which Pod Security `baseline` and `restricted`"
        " refuse. Engines are not root: only a runtime that makes it ambient grants it. Default: false. Change: rolling"
        " restart.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.count) || has(self.resource)",
            lambda network: network.count is None or network.resource is not None,
            "`count` needs `resource`: the devices that it counts",
        ),
    )

    @property
    def devices(self) -> int:
        """The devices of each pod; 0 without a resource."""
        return (self.count or 1) if self.resource else 0
