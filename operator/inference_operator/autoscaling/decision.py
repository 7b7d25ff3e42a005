"""The square-root staffing law: how many replicas a role needs now, from samples, with a reason in words.

The operator decides by it with the backend `BuiltIn`, from samples of every few seconds. With `HPA` and `KEDA` the law
is the target-utilization query of `query.py`. For one demand the two give different numbers: here the headroom is
2 sqrt(R z) requests, growth counts, and a backlog is worked off within 5 s; there 15 % of the capacity stay free, and a
backlog is worked off within 30 s. docs/explanation/autoscaling.md measures both.

Symbols: C is the target concurrency, the requests that one engine serves well at a time. n is the number of ready
engines. S is the mean time that an engine works on one request, in seconds. L is the time from a new replica to its
readiness, in seconds.

The rules:

1. Demand is counted in requests: outstanding = running + waiting in engines + queued and held in routers. It is never a
   ratio of the present replicas, so nothing compounds while new engines load.
2. The backlog is what exceeds C x n: it waits, wherever the queue stands.
3. The steady demand R is the number of requests that arrivals keep in engines: arrivals per second x S (Little's law).
   Arrivals are those of the whole history, unless the last ones clearly differ; if they clearly grow, those expected
   after half of L count. Engines with more than C are slow, so S is measured
   while they have at most C, and the last value is used while they have more. That value is discarded when completions
   prove it too long: it came from a few slow requests, for example an engine's first. Where prompts bind the target, S
   is at least that at the target: R / C is then arrivals divided by those that an engine serves at its target. Prompts
   in an engine are few until they need nearly all of its time, and then grow without bound.
4. If engines have more requests than R and its headroom, these count instead, up to C x n: full engines are kept.
   Requests beyond C x n show the length of the queue, not the arrival rate.
5. The headroom is 2 sqrt(R z): the probability that a request waits then does not depend on the size (Halfin and
   Whitt, "Heavy-traffic limits for queues with many exponential servers", Operations Research 29, 1981).
   z = (1 + I) / 2 is the peakedness of arrivals whose counts have I times the variance of independent ones, for
   exponential times in the engine (Whitt, "Heavy-traffic approximations for service systems with blocking", AT&T Bell
   Labs Technical Journal 63, 1984). Up to R + 3 sqrt(R z) outstanding requests may be chance, and are no backlog.
6. A backlog is worked off within T = DRAIN_SECONDS, or S if that is longer. Requests that will be added to it until new
   engines are ready count, unless some start.
7. replicas = ceil(max(R + headroom + backlog x min(1, S/T), min(outstanding, C x n)) / C), within the limits.
   Requests that have been outstanding for `STUCK_SECONDS`, while all engines were full and none started, count in full:
   clients that retry at once keep a backlog that no engine works off, and few arrivals then say nothing about the
   demand.
8. More replicas: at once. Fewer: the largest number of the last window, which is at least as long as L. Replicas for a
   backlog count over a short window only: a backlog is worked off once. While all ready engines are full and others
   start, lack a GPU or are not allowed, none goes: a backlog that no GPU can serve is not asked for again and again.
9. Zero only after `idle_seconds` without a request; from zero at the first outstanding one.
10. With incomplete samples, replicas never fall, and never to zero.
11. After a gap in the samples, or a clock that jumps, the window of rule 8 starts again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from math import ceil, inf, isfinite, sqrt

RATE_SECONDS = 60.0
"""Arrivals and completions are counted over this time. A shorter one takes chance for a trend: with one request a
second, 30 s have a standard deviation of 18 %."""

HISTORY_SECONDS = 300.0
"""Samples are kept for this long: growth is the last `RATE_SECONDS` against the time before."""

CLEAR_SIGMAS = 3.0
"""Two counts differ clearly, and not by chance, if it is by this many standard deviations of a Poisson count."""

SLOW_SIGMAS = 5.0
"""A known S is too long if completions exceed what it makes expect by this many standard deviations. It is compared at
each sample, 720 times in an hour: chance reaches five of them once in 3.5 million."""

HEADROOM_FACTOR = 2.0
"""Standard deviations of the Poisson number of requests in flight that stay free (Halfin and Whitt, beta = 2)."""

DRAIN_SECONDS = 5.0
"""A backlog is worked off within this time once engines are ready; `bench/autoscaling.py` compares values."""

STUCK_SECONDS = 30.0
"""A backlog that is this old while no engine starts does not go away: six times `DRAIN_SECONDS`."""

BACKLOG_DOWN_SECONDS = 30.0
"""Window over which replicas for a backlog count."""

DOWN_SECONDS = 300.0
"""Smallest window of scaling down; the HorizontalPodAutoscaler's default (`--horizontal-pod-autoscaler-downscale-
stabilization`, Kubernetes 1.36)."""

GAP_SECONDS = 120.0
"""A longer time between two samples is a gap. While there is no demand, samples are 30 s apart."""

EPSILON = 1e-9
"""Keeps rounding errors from adding a replica."""

PRIOR_INTERVALS = 12
"""Intervals between samples, a minute of them, in which arrivals count as independent before any is measured."""

LEAST_LOAD = 0.5
"""Part of the target that engines must have, so that their latencies tell of the target."""

SHORTAGE = 1.05
"""Part of full engines' requests from which more engines are missing that do not start; a rounded target is no less."""

MAX_HISTORY = 512
"""Samples and decisions that are kept: 42 minutes at a sample each 5 s."""


@dataclass(frozen=True, slots=True)
class ScalingSample:
    at: float
    """Seconds of a monotonic clock."""
    outstanding: float
    """Requests that run, wait in engines, or are queued or held in routers."""
    arrivals: float
    """Requests that have arrived since some start; it never falls, or restarts with a router."""
    completions: float
    """Requests that engines have finished since some start."""
    running: float
    ready: int
    starting: int
    missing: tuple[str, ...] = ()
    """Pods whose metrics could not be read."""


@dataclass(frozen=True, slots=True)
class ScalingSettings:
    min_replicas: int
    max_replicas: int
    target_concurrency: float
    start_seconds: float
    idle_seconds: float
    """Time without a request until zero replicas, if `min_replicas` is zero."""
    scale_down_seconds: float = DOWN_SECONDS
    least_seconds: float = 0.0
    """The least S: that at the target where the queue of prompts binds, which engines show only when it is too late."""

    @property
    def down_seconds(self) -> float:
        """Window of scaling down: as requested, but at least as long as a start."""
        return max(self.scale_down_seconds, self.start_seconds)


class Bound(Enum):
    """The rule or limit that decided the number of replicas: a name for metrics, and words for messages."""

    DEMAND = "demand"
    MIN_REPLICAS = "minReplicas"
    MAX_REPLICAS = "maxReplicas"
    SCALE_DOWN_DELAY = "the window of scaling down"
    IDLE_TIMEOUT = "idleTimeout"
    MISSING_METRICS = "missing metrics"


@dataclass(frozen=True, slots=True)
class Terms:
    """The parts of a decision, in requests."""

    steady: float = 0.0
    headroom: float = 0.0
    backlog: float = 0.0
    """The part of the backlog that counts, or what engines have beyond the steady demand and its headroom."""

    @property
    def total(self) -> float:
        return self.steady + self.headroom + self.backlog


@dataclass(frozen=True, slots=True)
class Decision:
    replicas: int
    bound: Bound
    terms: Terms
    target_concurrency: float

    @property
    def reason(self) -> str:
        """The decision in words.

        Examples:
            >>> Decision(3, Bound.DEMAND, Terms(60, 15.5, 12), 32).reason
            '88 requests (60 steady, 16 headroom, 12 of the backlog) at 32 for each engine'
        """
        terms = self.terms
        demand = (
            f"{terms.total:.0f} requests ({terms.steady:.0f} steady, {terms.headroom:.0f} headroom,"
            f" {terms.backlog:.0f} of the backlog) at {self.target_concurrency:.0f} for each engine"
        )
        return demand if self.bound is Bound.DEMAND else f"{demand}; limited by {self.bound.value}"


@dataclass(frozen=True, slots=True)
class ScalingState:
    samples: tuple[ScalingSample, ...] = ()
    """Samples of the last `HISTORY_SECONDS`, oldest first."""
    desired: tuple[tuple[float, int, int], ...] = ()
    """Time of each decision, with its replicas before limits: without and with the backlog."""
    since: float | None = None
    """Time of the first sample; nothing is scaled down before a whole window has been seen."""
    busy_at: float | None = None
    """Last time with an outstanding request, or with one that came and went between two samples, as prompts do."""
    service_seconds: float | None = None


def decide(
    sample: ScalingSample, settings: ScalingSettings, state: ScalingState, *, replicas: int
) -> tuple[Decision, ScalingState]:
    state = _with_sample(sample, state, settings)
    terms, stuck = _terms(sample, settings, state), _stuck(settings.target_concurrency, state)
    terms = replace(terms, backlog=max(terms.backlog, stuck - terms.steady - terms.headroom))
    lasting = ceil(max(terms.steady + terms.headroom, stuck) / settings.target_concurrency - EPSILON)
    desired = ceil(terms.total / settings.target_concurrency - EPSILON)
    state = replace(state, desired=(*state.desired, (sample.at, lasting, desired))[-MAX_HISTORY:])
    number, bound = _limited(sample, settings, state, replicas=replicas, desired=desired)
    return Decision(number, bound, terms, settings.target_concurrency), state


def _with_sample(sample: ScalingSample, state: ScalingState, settings: ScalingSettings) -> ScalingState:
    """The state with a new sample and without old ones. After a gap, or a clock that jumped, it starts empty."""
    if state.samples and not 0 <= sample.at - state.samples[-1].at <= GAP_SECONDS:
        state = ScalingState(service_seconds=state.service_seconds)
    kept = (*(earlier for earlier in state.samples if sample.at - earlier.at <= HISTORY_SECONDS), sample)[-MAX_HISTORY:]
    is_busy = sample.outstanding > 0 or state.busy_at is None or _increase(kept[-2:], "arrivals") > 0
    return replace(
        state,
        samples=kept,
        desired=tuple(entry for entry in state.desired if sample.at - entry[0] <= settings.down_seconds),
        since=sample.at if state.since is None else state.since,
        busy_at=sample.at if is_busy else state.busy_at,
        service_seconds=_service_seconds(kept, settings.target_concurrency, state.service_seconds),
    )


def _terms(sample: ScalingSample, settings: ScalingSettings, state: ScalingState) -> Terms:
    """The requests that engines are needed for: rules 2 to 6."""
    capacity = settings.target_concurrency * sample.ready
    service, start = state.service_seconds, max(settings.start_seconds, 1.0)
    if service is None:  # nothing has been finished yet: all that is outstanding is steady demand
        steady = sample.outstanding
        return Terms(steady, HEADROOM_FACTOR * sqrt(steady), 0.0)
    service = max(service, settings.least_seconds)
    dispersion = _dispersion(state.samples)
    rate, growth = _arrival_rate(state.samples, dispersion)
    steady = (rate + growth * start / 2) * service
    deviation = sqrt(steady * (1 + dispersion) / 2)
    headroom, chance = HEADROOM_FACTOR * deviation, steady + CLEAR_SIGMAS * deviation
    backlog = max(0.0, sample.outstanding - max(capacity, chance))
    if backlog > 0 and sample.starting == 0:
        backlog += max(0.0, rate - capacity / service) * start
    full = min(sample.outstanding, capacity)
    return Terms(steady, headroom, max(backlog * min(1.0, service / DRAIN_SECONDS), full - steady - headroom))


def _stuck(target: float, state: ScalingState) -> float:
    """The fewest outstanding requests of the last time, if all engines were full then and none started; else zero."""
    late = [sample for sample in state.samples if state.samples[-1].at - sample.at <= STUCK_SECONDS]
    whole = len(late) < len(state.samples)  # samples reach further back than this time
    full = all(sample.starting == 0 and sample.outstanding > target * sample.ready > 0 for sample in late)
    return min(sample.outstanding for sample in late) if whole and full else 0.0


def _limited(
    sample: ScalingSample, settings: ScalingSettings, state: ScalingState, *, replicas: int, desired: int
) -> tuple[int, Bound]:
    """The number within its limits: rules 8 to 10."""
    number, bound = desired, Bound.DEMAND
    low = max(1, settings.min_replicas)
    if number < low:
        number, bound = low, Bound.MIN_REPLICAS
    if number > settings.max_replicas:
        number, bound = settings.max_replicas, Bound.MAX_REPLICAS
    if _is_idle(sample, settings, state):
        return (0, Bound.IDLE_TIMEOUT) if not sample.missing else (replicas, Bound.MISSING_METRICS)
    if replicas == 0 and sample.outstanding <= 0:
        return (settings.min_replicas, Bound.MIN_REPLICAS) if settings.min_replicas else (0, Bound.IDLE_TIMEOUT)
    if number >= replicas:
        return number, bound
    if sample.missing:
        return replicas, Bound.MISSING_METRICS
    whole = state.since is not None and sample.at - state.since >= settings.down_seconds
    floor = _floor(sample, state) if whole and not is_short(sample, settings, replicas) else replicas
    if min(replicas, floor) > number:
        return min(max(min(replicas, floor), low), settings.max_replicas), Bound.SCALE_DOWN_DELAY
    return number, bound


def _floor(sample: ScalingSample, state: ScalingState) -> int:
    """The fewest replicas that the windows of scaling down allow."""
    return max(desired if sample.at - at <= BACKLOG_DOWN_SECONDS else lasting for at, lasting, desired in state.desired)


def is_short(sample: ScalingSample, settings: ScalingSettings, replicas: int) -> bool:
    """Whether all ready engines are full and others start, lack a GPU or are not allowed.

    Latencies then tell of missing engines, and not of the target.
    """
    full = settings.target_concurrency * sample.ready
    is_held = replicas > sample.ready or replicas >= settings.max_replicas
    return sample.outstanding > (full if sample.starting else SHORTAGE * full if is_held else inf)


def target_decides(sample: ScalingSample, settings: ScalingSettings, replicas: int) -> bool:
    """Whether a larger target would mean fewer engines, or engines have enough requests to tell of it."""
    is_loaded = sample.outstanding >= LEAST_LOAD * settings.target_concurrency * sample.ready > 0
    return is_loaded or replicas > max(1, settings.min_replicas)


def _is_idle(sample: ScalingSample, settings: ScalingSettings, state: ScalingState) -> bool:
    if settings.min_replicas or sample.outstanding > 0 or state.busy_at is None:
        return False
    if sample.starting and not sample.ready:  # an engine that is not ready yet could never prove that it works
        return False
    return sample.at - state.busy_at >= settings.idle_seconds


def _increase(samples: Sequence[ScalingSample], name: str) -> float:
    """The increase of a counter over samples; a restart of a counter is no decrease."""
    values = [getattr(sample, name) for sample in samples]
    return float(sum(max(0.0, later - former) for former, later in pairwise(values)))


def _arrival_rate(samples: Sequence[ScalingSample], dispersion: float) -> tuple[float, float]:
    """Arrivals per second, and their growth per second.

    Those of the whole history, unless the last ones clearly differ from those before; only then is there a growth.
    """
    now = samples[-1].at
    late = [sample for sample in samples if now - sample.at <= RATE_SECONDS]
    early = [sample for sample in samples if now - sample.at > RATE_SECONDS] + late[:1]
    seconds, before = max(late[-1].at - late[0].at, 1.0), early[-1].at - early[0].at
    rate = _increase(late, "arrivals") / seconds
    if before < RATE_SECONDS:
        return rate, 0.0
    former = _increase(early, "arrivals") / before
    error = sqrt(dispersion * (rate / seconds + former / before))
    growth = (rate - former) / ((seconds + before) / 2)
    if abs(rate - former) > CLEAR_SIGMAS * error:
        return rate, max(0.0, growth)
    return (rate * seconds + former * before) / (seconds + before), 0.0


def _dispersion(samples: Sequence[ScalingSample]) -> float:
    """Variance of the arrivals between two samples, divided by their mean; 1 unless it is clearly more.

    Each interval is compared with the next one (von Neumann's mean square successive difference), so that a change of
    the rate is no variance.
    """
    counts = [(max(0.0, b.arrivals - a.arrivals), max(b.at - a.at, EPSILON)) for a, b in pairwise(samples)]
    squares, pairs = float(PRIOR_INTERVALS), PRIOR_INTERVALS
    for (one, width), (other, after) in pairwise(counts):
        rate = (one + other) / (width + after)
        if expected := rate / width + rate / after:
            squares += (one / width - other / after) ** 2 / expected
            pairs += 1
    return max(1.0, squares / pairs - CLEAR_SIGMAS * sqrt(2 / pairs))  # the deviation of such a mean


def _service_seconds(samples: Sequence[ScalingSample], target: float, before: float | None) -> float | None:
    """S over all samples; while engines have more than their target, the former one, as rule 3 says.

    Without a former one, at most the target counts as running, since S is defined for engines with at most C.
    """
    late = [sample for sample in samples if samples[-1].at - sample.at <= RATE_SECONDS]
    seconds = late[-1].at - late[0].at
    finished = _increase(late, "completions")
    if finished < 1 or seconds <= 0:  # counters are whole requests
        return before
    running = sum(sample.running for sample in late)
    bounded = sum(min(sample.running, target * sample.ready) for sample in late)
    seconds_of_one_running = seconds / len(late) / finished
    if running > bounded and before is not None:
        now = running * seconds_of_one_running  # what requests take, which is longer than S
        expected = finished * now / before  # completions if they took S
        # The square root of a Poisson count has a standard deviation of 1/2, whatever the count is.
        return now if 2 * (sqrt(finished) - sqrt(expected)) > SLOW_SIGMAS else before
    whole = sum(min(sample.running, target * sample.ready) for sample in samples) / len(samples)
    estimate = whole * (samples[-1].at - samples[0].at) / _increase(samples, "completions")
    return estimate if isfinite(estimate) and estimate > 0 else before
