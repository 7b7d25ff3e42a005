"""Sequences of a batch for which a KV cache has blocks of states.

vLLM captures CUDA graphs of whole steps, in which each sequence writes its own block of states. It does not start if
the KV cache has fewer blocks than `max_num_seqs` (0.32.0, `config/compilation.py`, `resolve_cudagraph_mode_and_sizes`).
"""

from dataclasses import dataclass, replace

from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import Budget, EngineOnGpus
from inference_operator.sizing.shape import Shape


@dataclass(frozen=True, slots=True)
class Candidate:
    shape: Shape
    budget: Budget


SAFE_SEQUENCES = 32
"""Sequences of a batch where the size of states is unknown. Known models need less for one than for 8,192 tokens, and a
plan has room for many more tokens than 32 times these."""


def started_shape(engine: EngineOnGpus, facts: ModelFacts, shape: Shape) -> Candidate:
    """The shape with its budget; a number of sequences that nobody requests is at most what the engine starts with."""
    return Candidate(shape, engine.budget(facts, shape)) if shape.max_num_seqs else fitted_batch(engine, facts, shape)


def fitted_batch(
    engine: EngineOnGpus, facts: ModelFacts, shape: Shape, *, least: int = 1, most: int | None = None
) -> Candidate:
    """The shape with at most as many sequences as have blocks of states; unchanged if not even the least number has.

    Fewer sequences need less memory for the sampler and for graphs, which leaves more blocks. So the largest number is
    searched.
    """
    most = min(most or SAFE_SEQUENCES, SAFE_SEQUENCES) if facts.has_unknown_states else most
    whole = Candidate(shape, engine.budget(facts, shape))
    if most and most < whole.budget.max_num_seqs:
        return fitted_batch(engine, facts, replace(shape, max_num_seqs=most), least=min(least, most))
    spare = 0.0 if shape.kv_cache_bytes else whole.budget.spare_gib
    if not whole.budget.state_block_gib or whole.budget.states_headroom >= spare:
        return whole
    best, low, high = whole, least - 1, whole.budget.max_num_seqs
    middle = least
    while high - low > 1:
        fewer = replace(shape, max_num_seqs=middle)
        budget = engine.budget(facts, fewer)
        fits = budget.states_headroom >= spare
        low, high, best = (middle, high, Candidate(fewer, budget)) if fits else (low, middle, best)
        middle = (low + high) // 2
    return best
