"""`spec.hardware` and `spec.parallelism` of an InferenceDeployment."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from inference_operator.api.validation import (
    EXTENDED_RESOURCE,
    LABEL_KEY,
    MAX_LABEL_KEY_LENGTH,
    CelRules,
    Rule,
    SpecModel,
)

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


Product = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_. ]*$")]
MAX_PER_NODE = 16
"""GPUs of the largest servers (Amazon EC2, `p2.16xlarge`; NVIDIA HGX-2)."""
MEMORY_FORM = r"^[1-9][0-9]{0,4}Gi$"
GpuMemoryQuantity = Annotated[str, StringConstraints(min_length=1, max_length=32, pattern=MEMORY_FORM)]


class GpuSpec(SpecModel):
    products: tuple[Product, ...] = Field(
        (),
        max_length=16,
        description="Allowed kinds of GPU, for example `L4` or `H100-80GB`, or values of the node label"
        " `nvidia.com/gpu.product`. If no node with such a GPU exists yet, one with `perNode` GPUs is assumed to"
        " come. Default: any GPU that fits the model. Change: rolling restart with new sizing.",
    )
    per_node: int | None = Field(
        None,
        ge=1,
        le=MAX_PER_NODE,
        description="Number of GPUs that a node has, where no node with one of `products` exists yet, for example in an"
        " empty node pool. Default: 8 for kinds with NVLink, else as many as `parallelism` asks for."
        " Change: rolling restart with new sizing.",
    )
    memory: GpuMemoryQuantity | None = Field(
        None,
        description="Minimum memory of one GPU, for example `40Gi`. Default: any GPU that fits the model."
        " Change: rolling restart with new sizing.",
    )
    resource_name: (
        Annotated[str, StringConstraints(min_length=3, max_length=MAX_LABEL_KEY_LENGTH, pattern=f"^{LABEL_KEY}$")]
        | None
    ) = Field(
        None,
        description="Extended resource by which pods request GPUs, for example `nvidia.com/mig-1g.10gb`. Default:"
        " `nvidia.com/gpu`, or the MIG slices that fit the model. Change: rolling restart with new sizing.",
    )


RESIZES = "Change: rolling restart with new sizing."


class Device(StrEnum):
    GPU = "GPU"
    CPU = "CPU"


class HardwareSpec(SpecModel):
    device: Device = Field(Device.GPU, description=f"Type of device, `GPU` or `CPU`. Default: `GPU`. {RESIZES}")
    gpu: GpuSpec = Field(default_factory=GpuSpec, description="GPUs that engines may use.")
    network: NetworkSpec = Field(
        default_factory=NetworkSpec,
        description="Network between the pods of an engine over several nodes; an engine on one node has none.",
    )


class ParallelismSpec(SpecModel):
    tensor: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Tensor parallel size: number of GPUs that share each layer. Default: the smallest size that fits."
        f" {RESIZES}",
    )
    pipeline: int | None = Field(
        None,
        ge=1,
        le=16,
        description="Pipeline parallel size: number of stages that the layers are divided into. One engine uses"
        f" `tensor` x `pipeline` GPUs. Default: 1 on one node, a stage on each of several nodes. {RESIZES}",
    )
    nodes: int | None = Field(
        None,
        ge=1,
        le=16,
        description="Nodes of one engine: a group of pods with equal numbers of GPUs, one on each. It must divide"
        f" `tensor` x `pipeline`. Default: 1 if the model fits on one node, else the fewest that hold it. {RESIZES}",
    )
    data: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Data parallel size, for models with routed experts: groups of `tensor` GPUs with whole attention"
        " and their own KV cache, which share the experts (expert parallelism). One engine uses `tensor` x `data` GPUs;"
        f" `nodes` must divide `data`. Not run by the project. Default: 1. {RESIZES}",
    )
