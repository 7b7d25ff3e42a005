"""Cross-validation of sizing: each constant is fitted without the model family or GPU kind on which it is tested.

Three constants are medians over measured terms: bytes for each logit, and memory outside PyTorch of one GPU and of a
pair or larger group. Other terms are computed, or come from vLLM's source. The errors are compared with those of the
operator's own constants, which were chosen with all rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from bench.startups import Case
from inference_operator.engines.vllm.memory import LARGER_CONTEXT, LEAN_SAMPLER, version_of
from inference_operator.sizing.activation import activation_gib, sequences
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.units import GIB

RANKS = (1, 2, 3)
"""One GPU, a pair, a larger group."""
ROUGHLY = 1.0
"""Bytes for each logit with which to test whether the sampler determines the peak of a case."""


def without(cases: Sequence[Case], same: Callable[[Case], str]) -> list[Case]:
    """The cases, each with constants that were fitted on the cases of other groups."""
    found: list[Case] = []
    for group in {same(one) for one in cases}:
        engine = _fit([one for one in cases if same(one) != group])
        found.extend(replace(one, engine=engine(one)) for one in cases if same(one) == group)
    return found


def _fit(training: Sequence[Case]) -> Callable[[Case], EngineMemory]:
    slopes = {
        lean: _median([_slope(one) for one in training if _peaks(one) and _lean(one) is lean]) for lean in (True, False)
    }
    contexts = {
        (ranks, late): _median([_outside(one) for one in training if _measured(one, ranks) and _late(one) is late])
        for ranks in RANKS
        for late in (True, False)
    }

    def engine(one: Case) -> EngineMemory:
        own = dict(one.engine.group_gib)
        groups = tuple((ranks, contexts.get((ranks, _late(one))) or own[ranks]) for ranks in RANKS)
        slope = None if one.engine.request_state else slopes[_lean(one)]  # the second runner copies no logits
        return replace(one.engine, logit_bytes=one.engine.logit_bytes if slope is None else slope, group_gib=groups)

    return engine


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _lean(one: Case) -> bool:
    return (version_of(one.row.version) or LEAN_SAMPLER) >= LEAN_SAMPLER


def _late(one: Case) -> bool:
    return (version_of(one.row.version) or LARGER_CONTEXT) >= LARGER_CONTEXT


def _peaks(one: Case) -> bool:
    """Whether the peak was measured and the sampler determines it."""
    return one.row.number("peak_activation_gib") is not None and _peak(one, ROUGHLY) > _peak(one, 0.0)


def _slope(one: Case) -> float:
    """Bytes per logit that would give the measured peak."""
    measured = one.row.number("peak_activation_gib") or 0.0
    logits = sequences(one.engine, one.shape) * one.facts.vocabulary / GIB
    return one.engine.logit_bytes + (measured - _peak(one, one.engine.logit_bytes)) / logits


def _peak(one: Case, slope: float) -> float:
    engine = replace(one.engine, logit_bytes=slope)
    return activation_gib(one.facts, engine, one.shape, one.shape.context or one.facts.context, ends=True)


def _measured(one: Case, ranks: int) -> bool:
    size, linked = min(one.shape.parallel.tensor, RANKS[-1]), one.gpu.linked
    return size == ranks and linked and one.shape.parallel.pipeline == 1 and one.row.number("non_torch_gib") is not None


def _outside(one: Case) -> float:
    return one.row.number("non_torch_gib") or 0.0
