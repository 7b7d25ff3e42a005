"""The latencies that engines measured since the last correction of C: rounds of samples become one `Measured`.

Histograms of engines only grow, until an engine starts again. So the requests of a window are the growth of each engine
between two samples. The first sample of an engine only says where it stands.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from inference_operator.autoscaling.correction import Measured, corrected, is_enough, part_within
from inference_operator.autoscaling.decision import GAP_SECONDS
from inference_operator.autoscaling.target import Objective, Target, TargetBound
from inference_operator.views.samples import EngineSample, Histogram


@dataclass(frozen=True, slots=True)
class LatencyWindow:
    """What engines measured since the window began."""

    since: float | None = None
    """Time of its first round; None before it."""
    at: float = 0.0
    """Time of its last round."""
    first_token: Histogram | None = None
    """Times to first token of the requests in the window."""
    token: Histogram | None = None
    """Times of each output token of the requests that finished in it."""
    beside: float = 0.0
    """Sum over all samples of the square of an engine's running requests."""
    running: float = 0.0
    """Sum over all samples of an engine's running requests."""
    last: Mapping[str, EngineSample] = field(default_factory=dict)
    """The last sample of each engine, by the uid of its pod."""
    lowered_at: float | None = None
    """Time of the last step down of this process; None before it."""

    def after(self, engines: Mapping[str, EngineSample], *, at: float) -> "LatencyWindow":
        """The window after a round of samples. After a gap, or a clock that jumped, it begins anew."""
        if self.since is None or not 0 <= at - self.at <= GAP_SECONDS:
            return LatencyWindow(since=at, at=at, last=dict(engines), lowered_at=self.lowered_at)
        pairs = [(former, now) for uid, now in engines.items() if (former := self.last.get(uid))]
        return LatencyWindow(
            since=self.since,
            at=at,
            first_token=_grown(self.first_token, ((a.first_token, b.first_token) for a, b in pairs)),
            token=_grown(self.token, ((a.token, b.token) for a, b in pairs)),
            beside=self.beside + sum(one.running**2 for one in engines.values()),
            running=self.running + sum(one.running for one in engines.values()),
            last={**self.last, **engines},
            lowered_at=self.lowered_at,
        )

    def begun_anew(self, *, lowered: bool) -> "LatencyWindow":
        """An empty window that begins with the last round, which may have lowered the target."""
        lowered_at = self.at if lowered else self.lowered_at
        return LatencyWindow(since=self.at, at=self.at, last=self.last, lowered_at=lowered_at)

    def staying(self, uids: Iterable[str]) -> "LatencyWindow":
        """The same window without the last samples of other pods."""
        return replace(self, last={uid: self.last[uid] for uid in uids if uid in self.last})

    def measured(self, objective: Objective) -> Measured | None:
        """The latencies of the window beside the objective; None if nothing was measured.

        The running requests are those that a request runs beside, itself included, in the mean: an hour without
        requests does not count.
        """
        first, token = self.first_token, self.token
        if self.since is None or first is None or token is None or self.running <= 0:
            return None
        first_in_time = part_within(first.bounds, first.counts, objective.first_token)
        tokens_in_time = part_within(token.bounds, token.counts, objective.token)
        if first_in_time is None or tokens_in_time is None:
            return None
        answered = token.counts[-1]
        return Measured(
            seconds=self.at - self.since,
            requests=min(first.counts[-1], answered),
            first_token=first_in_time,
            token=tokens_in_time,
            token_seconds=token.total / answered,
            running=self.beside / self.running,
            since_lowered=inf if self.lowered_at is None else self.at - self.lowered_at,
        )


def correction(window: LatencyWindow, target: Target, objective: Objective) -> tuple[float, LatencyWindow]:
    """The factor of the computed target after a round, and the window for the next one.

    A target that the user has set is not corrected.

    Args:
        window: what was measured since the last step.
        target: the present target, with its factor.
        objective: the latencies that requests shall have.
    """
    measured = window.measured(objective)
    if target.bound is TargetBound.REQUESTED or measured is None or not is_enough(measured):
        return target.factor, window
    factor = corrected(target.factor, target.computed, measured, objective, most=target.most_factor)
    return factor, window.begun_anew(lowered=factor < target.factor)


def _grown(window: Histogram | None, pairs: Iterable[tuple[Histogram | None, Histogram | None]]) -> Histogram | None:
    """The histogram with what has come between each pair of samples. Engines with other buckets begin it anew."""
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
