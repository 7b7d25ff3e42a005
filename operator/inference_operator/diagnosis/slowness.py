"""Causes of slow answers of an engine: the limits that requests wait for, from its metrics.

All rules that apply, the most expensive cause first:

- Requests were preempted: the KV cache did not hold the running requests, and some were computed again.
- Requests wait and the KV cache is full.
- Requests wait and as many run as the limit on sequences allows.
- Requests wait for another reason: the engine is busy.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inference_operator.engines.telemetry import EngineLoad

FULL_CACHE = 0.95
"""Used part of the KV cache from which it counts as full: a new request needs blocks for its whole prompt."""


@dataclass(frozen=True, slots=True)
class SlowCause:
    evidence: str
    """The engine's figures, in a sentence."""
    cure: str


def slow_causes(load: EngineLoad, *, max_num_seqs: int | None) -> tuple[SlowCause, ...]:
    return tuple(_causes(load, max_num_seqs))


def _causes(load: EngineLoad, max_num_seqs: int | None) -> Iterator[SlowCause]:
    used = f"{100 * load.cache_usage:.0f} % of its KV cache is in use"
    if load.preemptions:
        yield SlowCause(
            f"It has preempted requests {load.preemptions:,} times since its start, which computes them again; {used}.",
            "Lower `spec.engine.maxNumSeqs`, set `spec.engine.kvCacheDtype: fp8` if the GPUs support it, or raise"
            " `spec.replicas`.",
        )
    if not load.waiting:
        return
    waits = f"{load.waiting:,} requests wait in its queue"
    if load.cache_usage >= FULL_CACHE:
        yield SlowCause(
            f"{waits}, and {used}.",
            "Raise `spec.replicas`, use more or larger GPUs, or set `spec.engine.kvCacheDtype: fp8`.",
        )
    elif max_num_seqs and load.running >= max_num_seqs:
        yield SlowCause(
            f"{waits}, and {load.running:,} run, as many as `maxNumSeqs` allows; {used}.",
            "Raise `spec.engine.maxNumSeqs`, or `spec.replicas`.",
        )
    else:
        yield SlowCause(f"{waits} and {load.running:,} run; {used}.", "Raise `spec.replicas`.")
