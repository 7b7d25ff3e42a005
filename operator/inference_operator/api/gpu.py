"""`spec.hardware.gpu`: which GPUs may be used."""

from typing import Annotated

from pydantic import Field, StringConstraints

from inference_operator.api.labels import LABEL_KEY, MAX_LABEL_KEY_LENGTH
from inference_operator.api.part import Part

Product = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_. ]*$")]
MEMORY_FORM = r"^[1-9][0-9]{0,4}Gi$"
GpuMemory = Annotated[str, StringConstraints(min_length=1, max_length=32, pattern=MEMORY_FORM)]


class GpuSpec(Part):
    """Which GPUs may be used."""

    products: tuple[Product, ...] = Field(
        (),
        max_length=16,
        description=(
            "Kinds of GPU that may be used, for example `H100-80GB`, `L4`, or a product as nodes' label"
            " `nvidia.com/gpu.product` has it. Where no such node is known, one with eight of them is taken for"
            " possible. Default: any that fits. Change: rolling restart, with sizes decided anew."
        ),
    )
    memory: GpuMemory | None = Field(
        None,
        description="The least memory of one GPU, for example `40Gi`. Default: any that fits. Change: rolling restart,"
        " with sizes decided anew.",
    )
    resource_name: (
        Annotated[str, StringConstraints(min_length=3, max_length=MAX_LABEL_KEY_LENGTH, pattern=f"^{LABEL_KEY}$")]
        | None
    ) = Field(
        None,
        description=(
            "The extended resource that GPUs are asked for by, for example `nvidia.com/mig-1g.10gb`. Default:"
            " `nvidia.com/gpu`, or the MIG slices that fit. Change: rolling restart, with sizes decided anew."
        ),
    )
