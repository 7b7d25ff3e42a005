"""Accuracy of sizing, compared with published start-ups of vLLM.

    python -m bench.sizing [--output text|json]

Errors of weights, KV cache and KV tokens are relative to what vLLM logged, over rows that started or at least logged
them and whose version is known. The verdict covers all rows that no rule of `bench.startups` excludes. *Unsafe*: sizing
says that the model fits, and the engine did not start. *Over-refusal*: sizing says that it does not fit, and the engine
started. A row is near the boundary if required and available memory differ by at most 10 % of the available memory.
KAITO's formula and the rule of 1.2 times the weights are judged in the same way.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.baselines import Estimate, kaito, thumb
from bench.figures import Aim, Figure, at_least, at_most, exactly, json_of, parser_of
from bench.held_out import without
from bench.startups import Case, case, excluded, startups
from inference_operator.models.facts import Kernel
from inference_operator.sizing.paged import paged_budget
from inference_operator.sizing.rules import broken_rule

BOUNDARY = 0.1
OUTLIER = 6.0
"""Per cent: a row with a larger error of its KV tokens is explained, or listed as open."""
LEAST_GIB = 0.1
"""Smaller logged values have no relative error; only their verdict counts."""
KV_TOKENS_AIMS = (at_most(1.5), at_most(5))
"""Per cent: the median error and its 90th percentile."""
QUANTIZED = tuple(kernel for kernel in Kernel if kernel is not Kernel.NONE)
SHAPES_OF_H100 = "H100"
EXPLAINED = {
    "gt-139": "the group size of its int4 experts is not stated; later checkpoints of the family have 32, not 128",
    "gt-141": "open: hybrid cache of 0.26, whose count of tokens changed; utilisation not stated",
    "gt-142": "open: as gt-141; which layers the NVFP4 checkpoint leaves in 16 bits is not stated",
    "gt-264": "open: 5.6 GiB beside weights and cache on an L40S, no terms logged",
    "gt-265": "open: V0 before latent caches, padding of heads not logged",
    "gt-271": "open: compressed attention of DeepSeek V4",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """One case and the estimate for it."""

    case: Case
    said: Estimate
    near: bool
    """Within 10 % of the boundary, by the operator's estimate."""


def ours(one: Case) -> Estimate:
    """The operator's estimate."""
    found = paged_budget(one.facts, one.gpu, one.engine, one.shape)
    fits = broken_rule(one.facts, one.shape) is None and (found.fits or one.row.outcome == "tp_invalid")
    return Estimate(fits, found.weights, found.kv_cache, found.kv_tokens)


def is_near(one: Case) -> bool:
    """Whether required and available memory are nearly equal."""
    found = paged_budget(one.facts, one.gpu, one.engine, one.shape)
    return one.row.outcome != "tp_invalid" and abs(found.headroom) <= BOUNDARY * found.offered


def error(one: Judged, column: str, value: float) -> float | None:
    """Error of an estimate in per cent; None if nothing was logged, or too little for a ratio."""
    logged = one.case.row.number(column)
    return abs(value / logged - 1) * 100 if logged and logged > LEAST_GIB else None


def spread(name: str, errors: Sequence[float], aims: tuple[Aim | None, Aim | None] = (None, None)) -> list[Figure]:
    """Figures of the median, the 90th percentile and the largest error."""
    if not errors:
        return []
    ordered = sorted(errors)
    decile = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
    values = (("median", median(ordered), aims[0]), ("p90", decile, aims[1]), ("worst", ordered[-1], None))
    found = [Figure(f"{name}, {kind}", round(value, 2), "%", aim) for kind, value, aim in values]
    return [*found, Figure(f"{name}, rows", len(ordered), "rows")]


def errors_of(judged: Sequence[Judged], column: str, quantity: str) -> list[float]:
    """All errors of one quantity, over rows whose version is known."""
    found = (error(one, column, getattr(one.said, quantity)) for one in judged if one.case.has_version)
    return [one for one in found if one is not None]


def verdict(name: str, judged: Sequence[Judged], *, aims: bool) -> list[Figure]:
    """Balanced accuracy, unsafe verdicts and over-refusals."""
    served = [one for one in judged if one.case.row.started]
    failed = [one for one in judged if not one.case.row.started]
    unsafe = sum(one.said.fits for one in failed)
    refused = sum(not one.said.fits for one in served)
    parts = [1 - unsafe / len(failed)] * bool(failed) + [1 - refused / len(served)] * bool(served)
    balanced = 100 * sum(parts) / len(parts) if parts else 0.0
    return [
        Figure(f"{name}: balanced accuracy", round(balanced, 1), "%", at_least(97) if aims else None),
        Figure(f"{name}: unsafe", unsafe, f"of {len(failed)}", exactly(0) if aims else None),
        Figure(
            f"{name}: over-refusals",
            round(100 * refused / max(1, len(served)), 1),
            f"% of {len(served)}",
            at_most(3) if aims else None,
        ),
    ]


def near(name: str, judged: Sequence[Judged], aim: Aim | None) -> list[Figure]:
    """Verdicts near the boundary."""
    close = [one for one in judged if one.near]
    right = sum(one.said.fits is one.case.row.started for one in close)
    return [
        Figure(
            f"{name}: right near the boundary", round(100 * right / max(1, len(close)), 1), f"% of {len(close)}", aim
        ),
        Figure(
            f"{name}: unsafe near the boundary",
            sum(one.said.fits and not one.case.row.started for one in close),
            "rows",
        ),
    ]


def measured() -> tuple[list[Figure], list[str]]:
    """All figures, and a line for each outlier and each wrong verdict."""
    rows = startups()
    reasons = Counter(reason for row in rows if (reason := excluded(row)))
    cases = [case(row) for row in rows if excluded(row) is None]
    figures = [Figure("rows", len(rows), "rows"), Figure("rows judged", len(cases), "rows")]
    figures += [Figure(f"excluded: {reason}", count, "rows") for reason, count in sorted(reasons.items())]
    judged = [Judged(one, ours(one), is_near(one)) for one in cases]
    figures += spread("weights", errors_of(judged, "weights_gib_per_gpu", "weights_gib"))
    figures += spread("KV GiB", errors_of(judged, "kv_gib_per_gpu", "kv_gib"))
    figures += spread("KV tokens", errors_of(judged, "kv_tokens", "kv_tokens"), KV_TOKENS_AIMS)
    for family in sorted({one.case.row.family for one in judged}):
        own = [one for one in judged if one.case.row.family == family]
        figures += spread(f"KV tokens of {family}", errors_of(own, "kv_tokens", "kv_tokens"))
    for runner, second in (("first", False), ("second", True)):  # of models; vLLM runs the second from 0.29
        own = [one for one in judged if one.case.engine.request_state is second]
        figures += spread(f"KV tokens, {runner} runner", errors_of(own, "kv_tokens", "kv_tokens"), KV_TOKENS_AIMS)
    figures += kinds_of(judged)
    for name, group in (("family", lambda one: one.row.family), ("GPU", lambda one: one.gpu.kind.partition("-")[0])):
        fitted = [Judged(one, ours(one), near=False) for one in without(cases, group)]
        figures += spread(f"KV tokens, {name} held out", errors_of(fitted, "kv_tokens", "kv_tokens"), KV_TOKENS_AIMS)
    other = [one for one in judged if SHAPES_OF_H100 not in one.case.gpu.kind]
    figures += spread("KV GiB, other GPUs than H100", errors_of(other, "kv_gib_per_gpu", "kv_gib"))
    figures += verdict("verdict", judged, aims=True) + near("verdict", judged, at_least(85))
    for name, way in (("KAITO", kaito), ("weights x 1.2", thumb)):
        others = [Judged(one.case, way(one.case), one.near) for one in judged]
        figures += spread(f"{name}: KV tokens", errors_of(others, "kv_tokens", "kv_tokens"))
        figures += verdict(name, others, aims=False) + near(name, others, None)
    return figures, [line for one in judged for line in remarks(one)]


def kinds_of(judged: Sequence[Judged]) -> list[Figure]:
    """Errors and verdicts by how weights are stored, and of models that read images or compute vectors.

    A kind without a published start-up has the figure `rows` 0: its sizes are from vLLM's source alone.
    """
    kinds = {f"weights in {kernel.value}": [j for j in judged if _stored(j.case) is kernel] for kernel in QUANTIZED}
    kinds["models with a vision tower"] = [one for one in judged if one.case.facts.has_vision]
    kinds["pooling models"] = [one for one in judged if one.case.facts.is_pooling]
    figures = []
    for name, own in kinds.items():
        unsafe = [one for one in own if one.said.fits and not one.case.row.started]
        refused = [one for one in own if one.case.row.started and not one.said.fits]
        figures += [
            Figure(f"{name}: rows", len(own), "rows"),
            *spread(f"{name}: weights", errors_of(own, "weights_gib_per_gpu", "weights_gib")),
            *spread(f"{name}: KV tokens", errors_of(own, "kv_tokens", "kv_tokens")),
            Figure(f"{name}: unsafe", len(unsafe), "rows", exactly(0)),
            Figure(f"{name}: over-refusals", len(refused), "rows"),
        ]
    return figures


def _stored(one: Case) -> Kernel:
    """How the engine keeps the weights: as in the checkpoint, else as requested."""
    own, requested = one.facts.quantization.kernel, one.shape.quantization
    return requested.kernel if requested and own is Kernel.NONE else own


def remarks(one: Judged) -> list[str]:
    """Lines about a row: an outlier of its KV tokens, a wrong verdict."""
    row, lines = one.case.row, []
    why = EXPLAINED.get(row.id, "open")
    off = error(one, "kv_tokens", one.said.kv_tokens) if one.case.has_version else None
    if off is not None and off > OUTLIER:
        lines.append(f"{row.id} {row.fields['model']}: KV tokens off by {off:.1f} %: {why}")
    if one.said.fits is not row.started:
        lines.append(f"{row.id} {row.fields['model']}: estimated fits={one.said.fits}, observed {row.outcome}: {why}")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.sizing", "Accuracy of sizing, compared with published start-ups.")
    args = parser.parse_args(arguments)
    figures, lines = measured()
    if args.output == "json":
        print(json_of(figures))
        return 0
    for one in figures:
        print(f"{one.name:60} {one.value:>10g} {one.unit}" + (f"  (aim: {one.aim})" if one.aim else ""))
    print("\n".join(["", *lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
