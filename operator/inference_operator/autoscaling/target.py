"""The target concurrency C: how many requests one engine serves well at a time, computed from its pinned plan.

C is the smallest of three bounds:

1. `max_num_seqs`: more requests than these wait in the engine.
2. The KV cache: how many typical requests it holds.
3. The time of each output token: one decode step reads the weights once and the KV cache of every sequence, so

       seconds of a step = ranks in a row x (weight bytes + sequences / ranks in a row x KV bytes) / bandwidth

   A step must leave `PREFILL_SHARE` of the objective for the prompts that are computed in between. A GPU that is too
   slow for the objective serves `LEAST_TARGET` all the same: fewer would cost many engines, and still miss it.

On an unknown GPU, `UNKNOWN_TARGET` stands for the third bound. `correction.py` corrects C by what engines measure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from inference_operator.api.autoscaling import TIME_PER_OUTPUT_TOKEN, TIME_TO_FIRST_TOKEN
from inference_operator.hardware.kinds import kind_named
from inference_operator.sizing.budget import TYPICAL_TOKENS
from inference_operator.sizing.plan import PerGpu, Plan
from inference_operator.sizing.shape import Objective
from inference_operator.units import GIB

TTFT_SECONDS = TIME_TO_FIRST_TOKEN.total_seconds()
TPOT_SECONDS = TIME_PER_OUTPUT_TOKEN.total_seconds()

UNKNOWN_TARGET = 32.0
"""C on GPUs whose bandwidth is unknown, and on CPUs."""

LEAST_TARGET = 8.0
"""Smallest C that the objective of output tokens leads to."""

BANDWIDTH_USE = 0.6
"""Part of the GPU's bandwidth that decoding reaches: about 60 % on H100 (Databricks, "LLM Inference Performance
Engineering: Best Practices", 2023, section "Model Bandwidth Utilization")."""

PREFILL_SHARE = 0.5
"""Part of an engine's time that prompts take. An assumption: it depends on the lengths of prompts and answers."""

BYTES_OF_GB = 1e9


DEFAULT_OBJECTIVE = Objective()


class TargetBound(StrEnum):
    """The bound that decides the target concurrency, in words for users."""

    REQUESTED = "targetConcurrency"
    SEQUENCES = "max_num_seqs"
    KV_CACHE = "KV cache"
    TOKEN_TIME = "time of each output token"  # noqa: S105 - a token of a text
    TOO_SLOW = "GPU that is too slow for the objective of output tokens"
    UNKNOWN_BANDWIDTH = "unknown bandwidth"


@dataclass(frozen=True, slots=True)
class Target:
    """A target concurrency, and what decided it."""

    concurrency: float
    """With the correction."""
    bound: TargetBound
    bounds: Mapping[TargetBound, float]
    """All bounds that were computed, in requests."""
    factor: float = 1.0
    """The correction by measured latencies, by which the computed target was multiplied."""

    @property
    def computed(self) -> float:
        """The target without correction."""
        return max(1.0, min(self.bounds.values(), default=self.concurrency))

    @property
    def most_factor(self) -> float:
        """Largest factor that has an effect: an engine computes no more than `max_num_seqs` requests at once."""
        return self.bounds.get(TargetBound.SEQUENCES, self.computed) / self.computed

    @property
    def reason(self) -> str:
        """The bound in words, and the others.

        Examples:
            >>> bounds = {TargetBound.SEQUENCES: 256.0, TargetBound.KV_CACHE: 40.0}
            >>> Target(40, TargetBound.KV_CACHE, bounds).reason
            '40 requests for each engine (bound by KV cache; max_num_seqs allows 256)'
        """
        others = [f"{name} allows {value:.0f}" for name, value in self.bounds.items() if name is not self.bound]
        corrected = [f"corrected from {self.computed:.0f} by measured latencies"] if self.factor != 1 else []
        why = "; ".join([f"bound by {self.bound}", *corrected, *others])
        return f"{self.concurrency:.0f} requests for each engine ({why})"


def target_concurrency(
    plan: Plan,
    *,
    max_num_seqs: int,
    requested: float | None = None,
    objective: Objective = DEFAULT_OBJECTIVE,
    typical_tokens: float = TYPICAL_TOKENS,
    factor: float = 1.0,
) -> Target:
    """The target concurrency of one engine.

    Args:
        plan: the pinned plan of the engine.
        max_num_seqs: sequences that the engine computes at once, also where the plan leaves that to the engine.
        requested: `spec.autoscaling.targetConcurrency`, which replaces the computed value.
        objective: the latencies that requests shall have.
        typical_tokens: tokens of a typical request, prompt and answer together.
        factor: the correction of the computed value by measured latencies.
    """
    bounds = {TargetBound.SEQUENCES: float(max_num_seqs)}
    if plan.per_gpu is not None:
        bounds[TargetBound.KV_CACHE] = plan.per_gpu.max_concurrency_at_2048_tokens * TYPICAL_TOKENS / typical_tokens
    batch = _largest_batch(plan, objective, typical_tokens)
    if batch is None:
        bounds[TargetBound.UNKNOWN_BANDWIDTH] = UNKNOWN_TARGET
    elif batch < LEAST_TARGET:
        bounds[TargetBound.TOO_SLOW] = LEAST_TARGET
    else:
        bounds[TargetBound.TOKEN_TIME] = batch
    if requested is not None:
        return Target(requested, TargetBound.REQUESTED, bounds)
    bound = min(bounds, key=lambda one: bounds[one])
    target = Target(max(1.0, bounds[bound]), bound, bounds)
    if factor >= target.most_factor:
        bound, factor = TargetBound.SEQUENCES, target.most_factor
    return replace(target, concurrency=max(1.0, target.computed * factor), bound=bound, factor=factor)


def _largest_batch(plan: Plan, objective: Objective, typical_tokens: float) -> float | None:
    """The largest batch whose tokens meet their objective; None if the bandwidth or the sizes are unknown."""
    memory, kind = plan.per_gpu, kind_named(plan.gpu) if plan.gpu else None
    if memory is None or kind is None or plan.cpu_offload_gib:  # offloaded weights pass a bus of unknown speed
        return None
    bandwidth = kind.bandwidth_gb_per_s * BYTES_OF_GB * BANDWIDTH_USE * _part_of_gpu(memory, kind.memory_gib)
    readable = objective.tpot * (1 - PREFILL_SHARE) * bandwidth
    weights = plan.parallel.pipeline * memory.weights_gib * GIB
    return max(0.0, readable - weights) / max(memory.kv_token_bytes * typical_tokens, 1.0)


def _part_of_gpu(memory: PerGpu, whole_gib: float) -> float:
    """The part of a GPU that the engine has. A MIG instance has its share of the memory's channels (NVIDIA's guide)."""
    return min(1.0, memory.memory_gib / whole_gib)
