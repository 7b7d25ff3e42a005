"""`spec.hardware.gpu`: the GPUs that engines may use."""

from typing import Annotated

from pydantic import Field, StringConstraints

from inference_operator.api.validation import LABEL_KEY, MAX_LABEL_KEY_LENGTH, SpecModel

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
