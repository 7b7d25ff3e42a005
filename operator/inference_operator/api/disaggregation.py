"""`spec.disaggregation` of an InferenceDeployment: prompts are computed by engines of their own."""

from typing import ClassVar

from pydantic import Field

from inference_operator.api.autoscaling import MAX_REPLICAS, MIN_BELOW_MAX
from inference_operator.api.container import Argument
from inference_operator.api.engine import MAX_TOKENS
from inference_operator.api.hardware import RESIZES, GpuSpec, NetworkSpec
from inference_operator.api.validation import Rule, SpecModel

PREFILL_SEQUENCES = 32
"""Prompts of one batch of a prefill engine: they fill a step with few, and each holds KV cache until it was read."""
PREFILL_BATCHED_TOKENS = 8192
"""Tokens of one step: vLLM's own for throughput on GPUs below 70 GiB, and for its server on larger ones (0.32.0,
vllm/engine/arg_utils.py, `get_batch_defaults`)."""

MIN_PROMPT_TOKENS = 1024
"""Where no break-even is known: shorter prompts hold up the answers beside them for less than their way takes."""

MAX_GBIT_PER_S = 12_800
"""Eight network adapters of 1,600 Gbit/s, which no server has yet."""


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
    tensor: int | None = Field(
        None, ge=1, le=64, description=f"Tensor parallel size. Default: that of `parallelism`. {RESIZES}"
    )
    pipeline: int | None = Field(
        None, ge=1, le=16, description=f"Pipeline parallel size. Default: that of `parallelism`. {RESIZES}"
    )


class PrefillHardwareSpec(SpecModel):
    """The hardware of prefill engines. The type of device is that of `spec.hardware`."""

    gpu: GpuSpec = Field(default_factory=GpuSpec, description="GPUs that prefill engines may use.")


class PrefillAutoscalingSpec(SpecModel):
    min_replicas: int = Field(
        0,
        ge=0,
        le=MAX_REPLICAS,
        description="Minimum number of prefill engines. With none the other engines compute all prompts. Default: 0."
        " Change: in place.",
    )
    max_replicas: int = Field(
        ge=1, le=MAX_REPLICAS, description="Maximum number of prefill engines. Required. Change: in place."
    )

    rules: ClassVar[tuple[Rule, ...]] = (MIN_BELOW_MAX,)


class PrefillSpec(SpecModel):
    replicas: int = Field(
        1,
        ge=0,
        le=MAX_REPLICAS,
        description="Number of prefill engines; with `autoscaling` the first one. With 0 the other engines compute all"
        " prompts. Default: 1. Change: in place.",
        json_schema_extra={"default": 1},
    )
    autoscaling: PrefillAutoscalingSpec | None = Field(
        None,
        description="The number follows the prompts that wait, against 3/4 of `autoscaling.objective.ttft`. The"
        " operator decides it, also where an HPA or KEDA decides that of the others; delays are theirs. Default: off."
        " Change: in place.",
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

    @property
    def most_replicas(self) -> int:
        return self.autoscaling.max_replicas if self.autoscaling else self.replicas


class TransferNetworkSpec(NetworkSpec):
    gigabits_per_second: int | None = Field(
        None,
        ge=1,
        le=MAX_GBIT_PER_S,
        description="Speed of the network for the KV caches of one engine, in Gbit/s. Refused where that of the"
        " shortest prompt that is sent takes more than a quarter of `autoscaling.objective.ttft`. Default: 10 over TCP;"
        " with `resource` 50 for each GPU. Change: rolling restart of the engines that answer, where `minPromptTokens`"
        " is not set and its default becomes another one.",
    )


class DisaggregationSpec(SpecModel):
    prefill: PrefillSpec = Field(default_factory=PrefillSpec, description="The engines that compute prompts.")
    min_prompt_tokens: int | None = Field(
        None,
        ge=1,
        le=MAX_TOKENS,
        description="Prompts of fewer tokens are computed by the engine that answers. Default: the plan's break-even,"
        " from which an answer beside a prompt would wait for it longer than it takes on its way;"
        f" {MIN_PROMPT_TOKENS} where none is known. Change: rolling restart.",
    )
    network: TransferNetworkSpec = Field(
        default_factory=TransferNetworkSpec,
        description="Network over which engines send the KV cache. Default: TCP on the network of pods.",
    )
