"""An engine as unlike vLLM as the server of llama.cpp: it shows no metrics, and its KV cache is allocated at its start.

Its image has no Python, so its preStop hook only waits. SIGTERM ends its requests. It knows no probe request.
"""

import math
from dataclasses import dataclass, replace

from inference_operator.api.engine import EngineSpec
from inference_operator.engines.process import FRONT, EngineProcess, Front, ProbeRequest, ServedModel, Timeouts
from inference_operator.engines.registry import ENGINES, EngineRegistry
from inference_operator.engines.telemetry import EngineSeries
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.checkpoint import WeightFormat
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import Budget, Origin, Term, TermName
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Shape, SizingInputs
from inference_operator.sizing.steptime import StepCosts
from inference_operator.units import GIB
from tests.testing.second_engine import Echo

PREALLOCATING = "PREALLOCATING"
SLOTS, BATCH = 16, 512
TOKEN_BYTES = 2**17
"""Bytes of a token in the KV cache of the whole engine, whatever the model."""
BUFFERS_GIB = 1.0
SPLITS = (1, 3)
"""GPUs over which it splits the layers. vLLM divides no 32 heads by three."""
ORIGIN = "llama-server's buffers"


@dataclass(frozen=True, slots=True)
class PreallocatingOnGpus:
    """Weights, buffers, and a KV cache for all slots; all of the GPU's memory may be used."""

    memory_gib: float
    reported_gib: float

    def unable(self, facts: ModelFacts, shape: Shape) -> str | None:  # noqa: ARG002 - protocol
        return None

    def broken_rule(self, facts: ModelFacts, shape: Shape) -> str | None:  # noqa: ARG002 - protocol
        return None if shape.parallel.tensor in SPLITS else f"No {shape.parallel.tensor} GPUs share the layers."

    def allowed_sizes(self, facts: ModelFacts, shape: Shape, at_most: int) -> tuple[int, ...]:  # noqa: ARG002 - protocol
        return tuple(size for size in SPLITS if size <= at_most)

    def budget(self, facts: ModelFacts, shape: Shape) -> Budget:
        ranks, slots = shape.parallel.world_size, shape.max_num_seqs or SLOTS
        context = shape.context or facts.context
        weights = facts.weight_bytes / GIB / ranks
        activation = BUFFERS_GIB + self.reported_gib
        left = self.memory_gib - weights - activation
        token = TOKEN_BYTES / ranks
        cache = slots * context * token / GIB
        fitting = left / cache
        return Budget(
            memory=self.memory_gib,
            utilization=1.0,
            weights=weights,
            activation=activation,
            context_memory=0.0,
            graphs=0.0,
            kv_cache=left,
            context=context,
            max_num_seqs=slots,
            max_num_batched_tokens=BATCH,
            outside=0.0,
            kv_needed=cache,
            kv_token_bytes=token,
            kv_tokens=slots * context,
            concurrency=slots * fitting,
            typical_concurrency=slots if fitting >= 1 else 0.0,
            terms=(
                Term(TermName.WEIGHTS, weights, Origin(facts.weights_from)),
                Term(TermName.ACTIVATION, activation, Origin(ORIGIN)),
                Term(TermName.KV_CACHE, left, Origin("what is left")),
            ),
        )

    def step_costs(self, facts: ModelFacts, shape: Shape) -> StepCosts | None:  # noqa: ARG002 - protocol
        return None

    def left_to_engine(
        self,
        facts: ModelFacts,  # noqa: ARG002 - protocol
        shape: Shape,  # noqa: ARG002 - protocol
        found: Budget,  # noqa: ARG002 - protocol
        request: SizingInputs,  # noqa: ARG002 - protocol
    ) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Preallocating(Echo):
    unsupported_fields = frozenset({"kvCacheDtype", "gpuMemoryUtilization"})
    formats = frozenset({WeightFormat.SAFETENSORS, WeightFormat.GGUF})
    metrics_page = None
    series = EngineSeries()

    def on_gpus(self, image: str, offer: GpuOffer, *, reported_gib: float = 0.0) -> PreallocatingOnGpus:  # noqa: ARG002 - protocol
        return PreallocatingOnGpus(offer.memory_gib, reported_gib)

    def cpu_needs(self, facts: ModelFacts | None, shape: Shape) -> CpuNeeds:
        context = shape.context or (facts.context if facts else 4096)
        cache = SLOTS * context * TOKEN_BYTES
        weights = facts.weight_bytes if facts else 0
        return CpuNeeds(context, cache, math.ceil((cache + weights) / GIB + BUFFERS_GIB))

    def process(
        self, spec: EngineSpec, plan: Plan, served: ServedModel, timeouts: Timeouts, at: Front = FRONT
    ) -> EngineProcess:
        made = Echo().process(spec, plan, served, timeouts, at)
        return replace(
            made,
            command=("llama-server",),
            args=("-m", served.model, "-a", served.name, "-np", str(plan.max_num_seqs or SLOTS)),
            max_concurrency=plan.max_num_seqs or SLOTS,
            pre_stop=(),
            pre_stop_seconds=timeouts.dns_staleness + timeouts.drain,
        )

    def probe_request(self, model: str) -> ProbeRequest | None:  # noqa: ARG002 - protocol
        return None


REGISTRY = EngineRegistry({**ENGINES.by_name, PREALLOCATING: Preallocating()}, default=PREALLOCATING)
"""The engines of the release and this one, which is the default."""
