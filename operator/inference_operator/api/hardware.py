"""`spec.hardware` and `spec.parallelism` of an InferenceDeployment."""

from enum import StrEnum

from pydantic import Field

from inference_operator.api.gpu import GpuSpec
from inference_operator.api.network import NetworkSpec
from inference_operator.api.validation import SpecModel

RESIZES = "Change: rolling restart with new sizing."
"""Sentence of fields whose change plans the engine anew."""


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
