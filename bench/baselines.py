"""Two published methods of sizing, for comparison.

KAITO: `pkg/workspace/estimator/nodesestimator/estimator.go` and `pkg/model/interface.go` of kaito-project/kaito at
commit 056b8280b, written anew from its documentation (`website/docs/memory-estimator.md`). The rule of thumb: 1.2 bytes
for each byte of weights, as model pages and calculators use it.
"""

from dataclasses import dataclass

from bench.startups import Case
from inference_operator.models.facts import Attention
from inference_operator.units import GIB

KAITO_WEIGHTS, KAITO_UTILIZATION, KAITO_RESERVE_GIB, KAITO_SHARE = 1.02, 0.84, 2.3, 1.05
KAITO_CONTEXT = 2048
"""The context in tokens if none is requested."""
THUMB = 1.2
ELEMENT_BYTES = 2
"""Both methods assume a 16-bit KV cache."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate of a method for one GPU."""

    fits: bool
    weights_gib: float
    kv_gib: float
    kv_tokens: float


def kaito(case: Case) -> Estimate:
    """KAITO's closed formula, for the number of GPUs that were used; it rounds the GPU's memory to whole GiB."""
    gpus = case.shape.parallel.tensor * case.shape.parallel.pipeline
    memory = float(round(case.gpu.memory_gib))
    weights = case.facts.weight_bytes / GIB * KAITO_WEIGHTS
    context = case.shape.context or KAITO_CONTEXT
    reserve = KAITO_RESERVE_GIB + context * _token_bytes(case) / gpus / GIB
    available = (memory * KAITO_UTILIZATION - reserve) / KAITO_SHARE
    fits = available > 0 and int(weights / available) + 1 <= gpus
    used = case.shape.utilization or KAITO_UTILIZATION
    left = memory * used - KAITO_RESERVE_GIB - weights * KAITO_SHARE / gpus
    return Estimate(fits, weights / gpus, left, max(0.0, left) * GIB * gpus / _token_bytes(case))


def thumb(case: Case) -> Estimate:
    """1.2 times the weights, and the rest is KV cache."""
    gpus = case.shape.parallel.tensor * case.shape.parallel.pipeline
    weights = case.facts.weight_bytes / GIB / gpus
    used = case.gpu.memory_gib * (case.shape.utilization or case.engine.utilization)
    left = used - weights * THUMB
    needed = (case.shape.context or case.facts.context) * _token_bytes(case) / gpus / GIB
    return Estimate(left >= needed, weights, left, max(0.0, left) * GIB * gpus / _token_bytes(case))


def _token_bytes(case: Case) -> int:
    """Bytes of one token in the KV cache, as if all layers had full attention."""
    layers = sum(one.layers for one in case.facts.groups if one.token_bytes is None)
    first = next(one for one in case.facts.groups if one.attention is not Attention.STATE)
    return layers * max(1, first.kv_heads) * first.elements * ELEMENT_BYTES
