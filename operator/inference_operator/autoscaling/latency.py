"""Latencies that engines measured since the last step of the target correction: samples become a `LatencySample`.

Histograms of engines only grow, until an engine starts again. So the requests of a window are the growth of each engine
between two samples. The first sample of an engine only says where it stands.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf

from inference_operator.autoscaling.decision import GAP_SECONDS, ScalingSettings
from inference_operator.autoscaling.target import Target, TargetBound
from inference_operator.autoscaling.target_correction import (
    CEILING_SECONDS,
    STEP_REQUESTS,
    LatencySample,
    is_enough,
    is_old,
    next_factor,
)
from inference_operator.sizing.serving import MOST_SPREAD, Load
from inference_operator.sizing.shape import Objective
from inference_operator.views.samples import EngineSample, Histogram, TokenCounts

NO_TOKENS = TokenCounts(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class LatencyWindow:
    since: float | None = None
    """Time of its first round, which may be yet to come; None before any round."""
    at: float = 0.0
    ttft: Histogram | None = None
    """Times to first token of the requests in the window."""
    tpot: Histogram | None = None
    """Times of each output token of the requests that finished in it."""
    prompts: Histogram | None = None
    answers: Histogram | None = None
    tokens: TokenCounts = NO_TOKENS
    last: Mapping[str, EngineSample] = field(default_factory=dict)
    """The last sample of each engine, by the uid of its pod."""
    fell: tuple[float, float] | None = None
    """Time of the last fall of the target in this process, and the factor from which it fell."""
    judged: LatencySample | None = None
    """The latencies of the window before; None before the first one has ended."""

    def after(self, engines: Mapping[str, EngineSample], *, at: float, counts: bool = True) -> "LatencyWindow":
        """The window after a round of samples. After a gap, or a clock that jumped, it starts again.

        Args:
            engines: the samples by the uids of pods.
            counts: whether the round says something about the target: engines that are missing do not.
        """
        if self.since is None or not 0 <= at - self.at <= GAP_SECONDS:
            return LatencyWindow(since=at, at=at, last=dict(engines), fell=self.fell, judged=self.judged)
        if at <= self.since or not counts:
            return replace(self, at=at, last={**self.last, **engines})
        pairs = [(former, now) for uid, now in engines.items() if (former := self.last.get(uid))]
        return replace(
            self,
            at=at,
            ttft=_grown(self.ttft, ((a.ttft, b.ttft) for a, b in pairs)),
            tpot=_grown(self.tpot, ((a.tpot, b.tpot) for a, b in pairs)),
            prompts=_grown(self.prompts, ((a.prompts, b.prompts) for a, b in pairs)),
            answers=_grown(self.answers, ((a.answers, b.answers) for a, b in pairs)),
            tokens=_counted(self.tokens, ((a.tokens, b.tokens) for a, b in pairs)),
            last={**self.last, **engines},
        )

    def restarted(
        self, judged: LatencySample | None, *, wait: float = 0.0, fell_from: float | None = None
    ) -> "LatencyWindow":
        """An empty window that begins some seconds after the last round, in which the target may have fallen."""
        fell = self.fell if fell_from is None else (self.at, fell_from)
        return LatencyWindow(since=self.at + wait, at=self.at, last=self.last, fell=fell, judged=judged)

    def staying(self, uids: Iterable[str]) -> "LatencyWindow":
        return replace(self, last={uid: self.last[uid] for uid in uids if uid in self.last})

    def measured(self, objective: Objective, longest_prompt: float) -> LatencySample | None:
        """The latencies of the window, compared with the objective; None without a finished request.

        Args:
            longest_prompt: tokens of the longest prompt whose first token the objective can ask for.
        """
        ttft, tpot = self.ttft, self.tpot
        if self.since is None or ttft is None or tpot is None or not ttft.counts[-1] or not tpot.counts[-1]:
            return None
        is_recent = self.fell is not None and self.at - self.fell[0] <= CEILING_SECONDS
        return LatencySample(
            seconds=self.at - self.since,
            requests=min(ttft.counts[-1], tpot.counts[-1]),
            ttft=ttft.part_within(objective.ttft),
            tpot=tpot.part_within(objective.tpot),
            attainable=self.prompts.part_within(longest_prompt) if self.prompts else 1.0,
            ceiling=self.fell[1] if self.fell and is_recent else inf,
        )

    def load(self, before: Load) -> Load:
        """The lengths of the requests in the window; the former ones unless they differ clearly.

        Each change may change the number of engines, and is written into the status.
        """
        if (load := measured_lengths([self.tokens])) is None:
            return before
        load = replace(
            load,
            accepted=before.accepted if load.accepted is None else load.accepted,
            prompt_spread=_spread(self.prompts, before.prompt_spread),
            answer_spread=_spread(self.answers, before.answer_spread),
        )
        pairs = (
            (load.prompt, before.prompt),
            (load.answer, before.answer),
            (1 + load.prompt_spread, 1 + before.prompt_spread),
            (1 + load.answer_spread, 1 + before.answer_spread),
        )
        differs = any(max(pair) >= LENGTH_STEP * min(pair) for pair in pairs)
        differs = differs or abs(load.cached - before.cached) >= CACHED_STEP
        return load if differs or _differs(load.accepted, before.accepted) else before


def _differs(accepted: float | None, before: float | None) -> bool:
    known = (accepted is None, before is None)
    return known[0] != known[1] or abs((accepted or 0.0) - (before or 0.0)) >= CACHED_STEP


def _spread(lengths: Histogram | None, before: float) -> float:
    """The spread of lengths, to which the former one counts as that of `SPREAD_REQUESTS`."""
    if lengths is None:
        return before
    count = lengths.counts[-1]
    found = (count * min(lengths.spread, MOST_SPREAD) + SPREAD_REQUESTS * before) / (count + SPREAD_REQUESTS)
    return round(found, SPREAD_DIGITS)


SPREAD_DIGITS, SPREAD_REQUESTS = 1, 1000
"""The variance of a long tail shows only in many requests: in 1,000 with a spread of 1 within a tenth of its mean."""
LENGTH_STEP, CACHED_STEP, CACHED_DIGITS = 1.25, 0.1, 2
"""A measured length replaces the former one from this factor on, and a measured part of cached tokens, or of accepted
guesses, from this difference on."""


def has_lengths(counts: TokenCounts | None) -> bool:
    """Whether so many requests have finished that their mean lengths count."""
    return counts is not None and counts.requests >= STEP_REQUESTS and counts.prompt > 0


def measured_lengths(engines: Sequence[TokenCounts | None]) -> Load | None:
    """The mean lengths of the requests that engines have finished; None of too few."""
    known = [counts for counts in engines if counts]
    total = TokenCounts(*(sum(getattr(counts, field.name) for counts in known) for field in fields(TokenCounts)))
    if not has_lengths(total):
        return None
    cached = total.cached / total.looked_up if total.looked_up > 0 else 0.0
    accepted = total.accepted / total.guessed if total.guessed > 0 else None
    return Load(
        prompt=max(1.0, float(round(total.prompt / total.requests))),
        answer=max(1.0, float(round(total.answer / total.requests))),
        cached=round(min(max(cached, 0.0), 1.0), CACHED_DIGITS),
        accepted=None if accepted is None else round(min(max(accepted, 0.0), 1.0), CACHED_DIGITS),
    )


def measured_spread(engines: Sequence[Histogram | None]) -> float:
    """The spread of the lengths of all engines, whose requests are divided at random.

    Where none is measured, that of exponentially distributed lengths.
    """
    known = [(lengths.counts[-1], lengths.spread) for lengths in engines if lengths and lengths.counts[-1]]
    requests = sum(count for count, _ in known)
    return min(sum(count * spread for count, spread in known) / requests, MOST_SPREAD) if known else 1.0


def target_correction(
    window: LatencyWindow, target: Target, settings: ScalingSettings, *, decides: bool
) -> tuple[float, Load, LatencyWindow]:
    """The factor of the computed target and the lengths of requests after a round, and the window for the next one.

    A target that the user has set is not corrected. A window with other lengths than before only tells these: its
    latencies are those of a target for the former lengths.

    Args:
        decides: whether a larger target would mean fewer engines, or engines have as many requests as the target.
    """
    measured = window.measured(target.objective, target.longest_prompt)
    if target.bound is TargetBound.REQUESTED or measured is None or not is_enough(measured):
        return target.factor, target.load, window
    load = window.load(target.load)
    if load != target.load:
        return target.factor, load, window.restarted(window.judged)
    permitted = 1 - target.objective.percentile / 100
    most = target.most_factor if decides else target.factor
    factor = next_factor(target.factor, measured, permitted=permitted, least=1 / target.computed, most=most)
    if factor == target.factor:
        return factor, load, window.restarted(measured) if is_old(measured) else window
    if factor > target.factor:
        return factor, load, window.restarted(measured, wait=settings.down_seconds)
    return factor, load, window.restarted(measured, wait=settings.start_seconds, fell_from=target.factor)


def _counted(total: TokenCounts, pairs: Iterable[tuple[TokenCounts | None, TokenCounts | None]]) -> TokenCounts:
    """The counts with the growth between each pair of samples; an engine that has started again begins at zero."""
    for former, now in pairs:
        if former is None or now is None:
            continue
        start = NO_TOKENS if now.requests < former.requests else former
        total = TokenCounts(
            *(
                getattr(total, field.name) + getattr(now, field.name) - getattr(start, field.name)
                for field in fields(TokenCounts)
            )
        )
    return total


def _grown(window: Histogram | None, pairs: Iterable[tuple[Histogram | None, Histogram | None]]) -> Histogram | None:
    """The histogram with the growth between each pair of samples. It starts again at an engine with other buckets."""
    for former, now in pairs:
        if former is None or now is None or former.bounds != now.bounds:
            continue
        zero = Histogram(now.bounds, (0.0,) * len(now.counts), 0.0)
        start = zero if now.counts[-1] < former.counts[-1] else former  # an engine that has started again
        before = window if window is not None and window.bounds == now.bounds else zero
        counts = zip(before.counts, start.counts, now.counts, strict=True)
        total = before.total - start.total + now.total
        window = Histogram(now.bounds, tuple(sum_ - old + new for sum_, old, new in counts), total)
    return window
