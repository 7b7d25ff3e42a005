"""`spec.disaggregation` of an InferenceDeployment: prompts are computed by engines of their own."""

from pydantic import Field

from inference_operator.api.autoscaling_schedule import MAX_REPLICAS
from inference_operator.api.container import Argument
from inference_operator.api.engine import MAX_TOKENS
from inference_operator.api.gpu import GpuSpec
from inference_operator.api.hardware import RESIZES
from inference_operator.api.network import NetworkSpec
from inference_operator.api.validation import SpecModel

PREFILL_SEQUENCES = 32
"""Prompts of one batch of a prefill engine: they fill a step with few, and each holds KV cache until it was read."""
PREFILL_BATCHED_TOKENS = 8192
"""Tokens of one step: vLLM's own for throughput on GPUs below 70 GiB, and for its server on larger ones (0.32.0,
vllm/engine/arg_utils.py, `get_batch_defaults`)."""

MIN_PROMPT_TOKENS = 1024
"""Shorter prompts fill no step of a GPU, and hold up the answers beside them for less than a second leg takes."""


class PrefillEngineSpec(SpecModel):
    """What differs in the engines that compute prompts. Everything else is as in `spec.engine`."""

    args: tuple[Argument, ...] = Field(
        (),
        max_length=64,
        description="Arguments in addition to those of `engine.args`: options of the scheduler and of memory. Default:"
        " none. Change: rolling restart of the prefill engines.",
    )
    max_num_seqs: int | None = Field(
        None,
        ge=1,
        le=65536,
        description=f"Maximum prompts per scheduler iteration. Default: {PREFILL_SEQUENCES}. {RESIZES}",
    )
    max_num_batched_tokens: int | None = Field(
        None,
        ge=1,
        le=MAX_TOKENS,
        description="Maximum tokens per scheduler iteration. Default:"
        f" {PREFILL_BATCHED_TOKENS} on GPUs, the engine's on CPUs. {RESIZES}",
    )


class PrefillParallelismSpec(SpecModel):
    """Parallelism of one prefill engine over its GPUs."""

    tensor: int | None = Field(
        None, ge=1, le=64, description=f"Tensor parallel size. Default: that of `parallelism`. {RESIZES}"
    )
    pipeline: int | None = Field(
        None, ge=1, le=16, description=f"Pipeline parallel size. Default: that of `parallelism`. {RESIZES}"
    )


class PrefillHardwareSpec(SpecModel):
    """The hardware of prefill engines. The type of device is that of `spec.hardware`."""

    gpu: GpuSpec = Field(default_factory=GpuSpec, description="GPUs that prefill engines may use.")


class PrefillSpec(SpecModel):
    """The engines that compute prompts. They have the model, the image and the options of the others."""

    replicas: int = Field(
        1,
        ge=0,
        le=MAX_REPLICAS,
        description="Number of prefill engines; nothing scales it. With 0 the other engines compute all prompts."
        " Default: 1. Change: in place.",
        json_schema_extra={"default": 1},
    )
    hardware: PrefillHardwareSpec | None = Field(
        None, description=f"Hardware of prefill engines. Default: that of `hardware`. {RESIZES}"
    )
    parallelism: PrefillParallelismSpec | None = Field(
        None, description=f"Parallelism of prefill engines. Default: that of `parallelism`. {RESIZES}"
    )
    engine: PrefillEngineSpec = Field(
        default_factory=PrefillEngineSpec, description="What differs in the engines that compute prompts."
    )


class DisaggregationSpec(SpecModel):
    """Long prompts are computed by prefill engines, which send the KV cache to those that generate the answer."""

    prefill: PrefillSpec = Field(default_factory=PrefillSpec, description="The engines that compute prompts.")
    min_prompt_tokens: int | None = Field(
        None,
        ge=1,
        le=MAX_TOKENS,
        description="Prompts of fewer tokens are computed by the engine that answers."
        f" Default: {MIN_PROMPT_TOKENS}. Change: rolling restart.",
    )
    network: NetworkSpec = Field(
        default_factory=NetworkSpec,
        description="Network over which engines send the KV cache. Default: TCP on the network of pods.",
    )
