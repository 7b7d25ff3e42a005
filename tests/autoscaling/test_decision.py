"""Decisions about replicas: their limits, windows, behaviour on missing data, and over many samples."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inference_operator.autoscaling.decision import (
    BACKLOG_DOWN_SECONDS,
    DOWN_SECONDS,
    GAP_SECONDS,
    Bound,
    Decision,
    ScalingSample,
    ScalingSettings,
    ScalingState,
    decide,
)

C, SERVICE, PERIOD, STEPS = 32.0, 8.0, 5.0, 50
SETTINGS = ScalingSettings(1, 64, C, start_seconds=120, idle_seconds=600)


class Fleet:
    """Engines that work off whatever they get, C at a time, and become ready at once or never."""

    def __init__(self, settings: ScalingSettings = SETTINGS, replicas: int = 1, *, starts: bool = True) -> None:
        self.settings, self.replicas, self.starts = settings, replicas, starts
        self.ready, self.outstanding, self.arrived, self.finished, self.at = replicas, 0.0, 0.0, 0.0, 0.0
        self.state = ScalingState()

    def step(self, rate: float, *, missing: tuple[str, ...] = ()) -> Decision:
        self.at += PERIOD
        self.arrived += rate * PERIOD
        for _ in range(STEPS):  # far shorter than the service time, as otherwise a sample sees too few running
            self.outstanding += rate * PERIOD / STEPS
            done = min(self.outstanding, C * self.ready) / SERVICE * PERIOD / STEPS
            self.outstanding -= done
            self.finished += done
        sample = ScalingSample(
            self.at,
            self.outstanding,
            self.arrived,
            self.finished,
            min(self.outstanding, C * self.ready),
            self.ready,
            max(0, self.replicas - self.ready),
            missing,
        )
        decision, self.state = decide(sample, self.settings, self.state, replicas=self.replicas)
        self.replicas = decision.replicas
        if self.starts or self.replicas < self.ready:
            self.ready = self.replicas
        return decision

    def run(self, rate: float, seconds: float) -> list[int]:
        return [self.step(rate).replicas for _ in range(int(seconds / PERIOD))]


def test_steady_arrivals_get_the_engines_of_littles_law_and_square_root_headroom() -> None:
    numbers = Fleet().run(rate=16, seconds=1800)
    assert numbers[-1] == 5  # 16/s x 8 s = 128 in flight, 22.6 of headroom, 32 an engine
    assert len(set(numbers[-60:])) == 1


@pytest.mark.parametrize("requests", [20, 100, 400])
def test_arrivals_in_bursts_never_get_fewer_engines_than_even_ones(requests: int) -> None:
    """The same number of arrivals in a minute, all in one interval of some: 1 is even."""
    found = []
    for every in (1, 2, 4, 12):
        state, arrived = ScalingState(), 0.0
        for tick in range(1, 73):
            arrived += every * requests / 12 if tick % every == 0 else 0
            sample = ScalingSample(tick * PERIOD, 1.0, arrived, requests / 12 * tick, requests / 60 * SERVICE, 64, 0)
            decision, state = decide(sample, SETTINGS, state, replicas=1)
        found.append(decision.terms.headroom)
    assert found == sorted(found)
    assert found[-1] > 1.5 * found[0]


def test_a_step_up_and_down_causes_one_phase_up_and_one_down() -> None:
    fleet = Fleet()
    fleet.run(rate=4, seconds=900)
    numbers = fleet.run(rate=40, seconds=1200) + fleet.run(rate=4, seconds=1800)
    directions = [later > former for former, later in pairwise(numbers) if later != former]
    assert directions == sorted(directions, reverse=True)


def test_replicas_fall_only_after_the_whole_window() -> None:
    fleet = Fleet(replicas=8)
    numbers = fleet.run(rate=1, seconds=DOWN_SECONDS + 60)
    before = int(DOWN_SECONDS / PERIOD)
    assert set(numbers[:before]) == {8}
    assert numbers[-1] < 8


def test_replicas_for_a_backlog_go_sooner_than_those_for_steady_demand() -> None:
    fleet = Fleet()
    steady = fleet.run(rate=4, seconds=900)[-1]
    fleet.outstanding += 1000
    assert fleet.step(4).replicas > steady
    numbers = fleet.run(rate=4, seconds=BACKLOG_DOWN_SECONDS + 60)
    assert numbers[-1] == steady


def test_clients_that_ask_again_at_once_get_the_engines_for_what_they_keep_outstanding_in_one_phase() -> None:
    """An engine finishes 4.5 short requests a second at most, and starts within a minute. Before, one engine stayed."""
    own = ScalingSettings(1, 8, target_concurrency=4, start_seconds=60, idle_seconds=600)
    numbers = _asked_again(own, lasts=2400)
    assert numbers[-1] == 6  # 16 requests, and 8 of headroom once engines are no longer full
    directions = [later > former for former, later in pairwise(numbers) if later != former]
    assert directions == sorted(directions, reverse=True)


def test_engines_that_start_for_longer_than_the_window_stay_while_the_ready_ones_are_full() -> None:
    own = ScalingSettings(1, 3, target_concurrency=4, start_seconds=29, idle_seconds=600, scale_down_seconds=30)
    numbers = _asked_again(own, lasts=600)
    assert numbers[-1] == 3
    assert all(former <= later for former, later in pairwise(numbers))


def test_a_service_time_of_a_few_slow_requests_ends_while_engines_have_more_than_their_target() -> None:
    """The first request takes 10 s, as on a new engine. Then 12 clients ask again at once, and requests take 1 s."""
    own = replace(SETTINGS, max_replicas=1, target_concurrency=4)
    state, finished = ScalingState(), 0.0
    for at in range(0, 900, 5):
        running = 1.0 if at <= 10 else 12.0
        finished += 0.0 if at < 10 else 1.0 if at == 10 else 5 * running
        sample = ScalingSample(at, running, finished + running, finished, running, ready=1, starting=0)
        decision, state = decide(sample, own, state, replicas=1)
        if at == 10:
            assert state.service_seconds == 10
    assert state.service_seconds == pytest.approx(1, rel=0.1)
    assert decision.terms.steady == pytest.approx(12, rel=0.1)


def _overloaded(state: ScalingState, seconds: float, running: int, seed: int) -> ScalingState:
    """The state after an hour in which an engine has more than its target, and requests take so many seconds."""
    own, random = replace(SETTINGS, max_replicas=1, target_concurrency=4), Random(seed)  # noqa: S311 - a test
    finished, mean = 0.0, PERIOD * running / seconds
    for step in range(int(3600 / PERIOD)):
        finished += _poisson(random, mean)
        sample = ScalingSample(step * PERIOD, running, finished + running, finished, running, ready=1, starting=0)
        state = decide(sample, own, state, replicas=1)[1]
    return state


def _poisson(random: Random, mean: float) -> int:
    """A random count: the arrivals of a unit of time with exponential gaps."""
    count, at = 0, random.expovariate(mean)
    while at < 1:
        count, at = count + 1, at + random.expovariate(mean)
    return count


@pytest.mark.parametrize(("seconds", "running"), [(300.0, 8), (60.0, 6), (8.0, 48)])
def test_a_right_service_time_is_hardly_ever_lost_by_chance_while_engines_have_more_than_their_target(
    seconds: float, running: int
) -> None:
    ends = [_overloaded(ScalingState(service_seconds=seconds), seconds, running, seed) for seed in range(20)]
    assert sum(end.service_seconds != seconds for end in ends) <= 1


def test_a_service_time_lasts_while_more_requests_make_engines_slow() -> None:
    """Engines take 20 s for requests that take 8 s at the target."""
    assert _overloaded(ScalingState(service_seconds=8), 20, 12, seed=1).service_seconds == 8


def _asked_again(own: ScalingSettings, *, lasts: int) -> list[int]:
    """The replicas for one client, and from 120 s on for 16, that ask again at once; engines start in 60 s."""
    state, replicas, ready_at, finished, numbers = ScalingState(), 1, [0.0], 0.0, list[int]()
    for at in range(0, lasts, 5):
        outstanding = 1.0 if at < 120 else 16.0
        ready = sum(one <= at for one in ready_at)
        finished += 5 * min(4.5 * ready, outstanding / 0.25)
        sample = ScalingSample(at, outstanding, finished + outstanding, finished, outstanding, ready, replicas - ready)
        decision, state = decide(sample, own, state, replicas=replicas)
        replicas = decision.replicas
        ready_at = [*ready_at, *[at + 60.0] * replicas][:replicas]
        numbers.append(replicas)
    return numbers


@pytest.mark.parametrize("seed", range(5))
def test_two_services_that_lack_gpus_ask_for_one_number_each_until_they_get_them(seed: int) -> None:
    """Both need 8 engines, of 12 that exist. Clients wait in a queue that is full, and leave it at random."""
    chance, gpus = Random(seed), 12  # noqa: S311 - no secret
    services = [Fleet(replicas=4, starts=False) for _ in range(2)]
    asked: list[list[int]] = [[], []]
    for _ in range(720):
        for service, numbers in zip(services, asked, strict=True):
            free = gpus - sum(one.ready for one in services)
            service.ready = min(service.replicas, service.ready + free)
            numbers.append(service.step(26 + 6 * chance.random()).replicas)
            service.outstanding = min(service.outstanding, C * service.ready + chance.uniform(100, 300))
    assert sum(one.ready for one in services) == gpus
    for numbers in asked:
        later = numbers[240:]
        assert max(later) >= 8
        assert sum(a != b for a, b in pairwise(later)) <= 4, "in 40 minutes"


def test_prompts_that_bind_need_engines_by_arrivals_long_before_requests_pile_up() -> None:
    """An engine serves 30 prompts a second, each in 0.05 s while it has time to spare: two are there in the mean."""
    prompts = replace(SETTINGS, target_concurrency=9.0, least_seconds=0.3)
    samples = [ScalingSample(5.0 * n, 3, 60 * 5.0 * n, 60 * 5.0 * n, 3, 2, 0) for n in range(80)]
    found = []
    for limits in (prompts, replace(prompts, least_seconds=0.0)):
        state = ScalingState()
        for sample in samples:
            decision, state = decide(sample, limits, state, replicas=2)
        found.append(decision.terms)
    assert [round(terms.steady) for terms in found] == [18, 3]


def test_a_start_that_takes_forever_compounds_nothing() -> None:
    fleet = Fleet(starts=False)
    numbers = fleet.run(rate=8, seconds=600)
    assert numbers[-1] <= numbers[len(numbers) // 4] * 8
    assert max(numbers) <= SETTINGS.max_replicas


def test_zero_follows_the_idle_time_and_one_request_ends_it() -> None:
    fleet = Fleet(replace(SETTINGS, min_replicas=0))
    fleet.run(rate=1, seconds=600)
    fleet.outstanding = 0
    numbers = fleet.run(rate=0, seconds=SETTINGS.idle_seconds + 300)
    assert numbers[-1] == 0
    assert fleet.run(rate=0, seconds=600)[-1] == 0
    assert fleet.step(1 / PERIOD).replicas >= 1


def test_requests_between_two_samples_keep_an_engine() -> None:
    """A prompt takes less than the time between samples, which see none outstanding."""
    limits, state, replicas = replace(SETTINGS, min_replicas=0), ScalingState(), 1
    for number in range(400):
        arrived = min(number, 200) // 10
        sample = ScalingSample(number * PERIOD, 0, arrived, arrived, 0, ready=1, starting=0)
        decision, state = decide(sample, limits, state, replicas=replicas)
        replicas = decision.replicas
        assert replicas == (number * PERIOD < 200 * PERIOD + SETTINGS.idle_seconds), number


def test_a_first_start_that_takes_longer_than_the_idle_time_goes_on() -> None:
    fleet = Fleet(replace(SETTINGS, min_replicas=0), starts=False)
    fleet.ready = 0
    assert fleet.run(rate=0, seconds=3 * SETTINGS.idle_seconds)[-1] == 1
    fleet.ready = 1
    assert fleet.run(rate=0, seconds=2 * SETTINGS.idle_seconds)[-1] == 0


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_missing_metrics_keep_the_replicas_and_never_lead_to_zero(rate: float) -> None:
    fleet = Fleet(replace(SETTINGS, min_replicas=0), replicas=6)
    fleet.run(rate=20, seconds=900)
    held = fleet.replicas
    for _ in range(400):
        decision = fleet.step(rate, missing=("engine-1",))
    assert decision.replicas == held
    assert decision.bound is Bound.MISSING_METRICS


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=60),
    st.integers(0, 5),
    st.integers(5, 64),
    st.floats(1, 512),
    st.floats(0, 3600),
)
@example([1.0, 2.0, 0.0, 5e-324], 0, 5, 1.0, 0.0)
def test_decisions_stay_within_their_limits(
    outstanding: list[float], low: int, high: int, target: float, start: float
) -> None:
    settings = ScalingSettings(low, high, target, start, idle_seconds=60)
    state, replicas = ScalingState(), low
    for number, value in enumerate(outstanding):
        sample = ScalingSample(number * PERIOD, value, number * value, number * value / 2, value / 2, replicas, 0)
        decision, state = decide(sample, settings, state, replicas=replicas)
        replicas = decision.replicas
        assert min(low, 1) * low <= replicas <= high
        assert replicas > 0 or low == 0
        assert decision.reason


@given(st.floats(0, 1e5), st.floats(0, 1e5))
def test_more_demand_never_wants_fewer_engines(one: float, other: float) -> None:
    low, high = sorted((one, other))
    wanted = [
        decide(ScalingSample(0, value, 0, 0, 0, 1, 0), SETTINGS, ScalingState(), replicas=1)[0].replicas
        for value in (low, high)
    ]
    assert wanted[0] <= wanted[1]


@st.composite
def histories(draw: st.DrawFn) -> list[ScalingSample]:
    """Samples of a deployment with random arrivals, completions and engines, at a sample each 5 s."""
    found, arrived, finished, ready = [], 0.0, 0.0, draw(st.integers(0, 8))
    for number in range(draw(st.integers(1, 30))):
        arrived += draw(st.floats(0, 200))
        finished += draw(st.floats(0, arrived - finished))
        outstanding = arrived - finished
        ready = max(0, ready + draw(st.integers(-1, 1)))
        running = min(outstanding, C * ready)
        found.append(ScalingSample(number * PERIOD, outstanding, arrived, finished, running, ready, 0))
    return found


@given(histories(), st.floats(0, 1e4))
def test_more_queued_requests_after_any_history_never_want_fewer_engines(
    samples: list[ScalingSample], more: float
) -> None:
    *before, newest = samples
    state, replicas = ScalingState(), 1
    for sample in before:
        decision, state = decide(sample, SETTINGS, state, replicas=replicas)
        replicas = decision.replicas
    busier = replace(newest, outstanding=newest.outstanding + more)
    wanted = [decide(one, SETTINGS, state, replicas=replicas)[0].replicas for one in (newest, busier)]
    assert wanted[0] <= wanted[1]


@given(histories(), st.floats(1, 1200), st.floats(1, 4), st.floats(0, 10))
def test_longer_starts_or_requests_that_take_longer_at_the_target_never_have_less_steady_demand_with_its_headroom(
    samples: list[ScalingSample], start: float, longer: float, seconds: float
) -> None:
    """The backlog may be less: what is outstanding by chance grows with the steady demand."""
    demand = []
    for times in (1.0, longer):
        limits = replace(SETTINGS, start_seconds=times * start, least_seconds=times * seconds)
        state, terms = ScalingState(), []
        for sample in samples:
            decision, state = decide(sample, limits, state, replicas=1)
            terms.append(decision.terms.steady + decision.terms.headroom)
        demand.append(terms)
    assert all(one <= other * (1 + 1e-9) for one, other in zip(*demand, strict=True))


@given(st.integers(0, 2**32), st.floats(8, 40), st.sampled_from([0.0, 120.0]))
@settings(max_examples=10)
def test_constant_noisy_load_moves_replicas_by_less_than_a_third_and_seldom(
    seed: int, rate: float, start: float
) -> None:
    random = Random(seed)  # noqa: S311 - noise of a load
    fleet = Fleet(replace(SETTINGS, start_seconds=start), replicas=8)
    fleet.run(rate=rate, seconds=900)
    numbers = [fleet.step(max(0.0, random.gauss(rate, (rate / PERIOD) ** 0.5))).replicas for _ in range(360)]
    assert max(numbers) - min(numbers) <= max(1, max(numbers) / 3)
    assert sum(one != other for one, other in pairwise(numbers)) <= 12  # in half an hour


@given(histories(), st.integers(1, 40))
def test_a_restart_scales_nothing_down_and_asks_for_no_more_than_a_new_start_would(
    samples: list[ScalingSample], replicas: int
) -> None:
    after = decide(samples[-1], SETTINGS, ScalingState(), replicas=replicas)[0]
    again = decide(samples[-1], SETTINGS, ScalingState(), replicas=after.replicas)[0]
    assert after.replicas >= replicas
    assert again.replicas == after.replicas


@given(histories(), st.integers(0, 40))
def test_samples_with_missing_pods_never_lead_to_fewer_engines(samples: list[ScalingSample], replicas: int) -> None:
    free = replace(SETTINGS, min_replicas=0, idle_seconds=60)
    state, held = ScalingState(), replicas
    for sample in samples:
        decision, state = decide(replace(sample, missing=("engine-0",)), free, state, replicas=held)
        assert decision.replicas >= held
        held = decision.replicas


@given(histories(), st.one_of(st.floats(-1e9, -0.1), st.floats(GAP_SECONDS + 1, 1e9)))
def test_a_clock_that_jumps_starts_a_new_window_and_scales_nothing_down(
    samples: list[ScalingSample], jump: float
) -> None:
    state, replicas = ScalingState(), 4
    for sample in samples:
        decision, state = decide(sample, SETTINGS, state, replicas=replicas)
        replicas = decision.replicas
    for number in range(5):
        later = replace(samples[-1], at=samples[-1].at + jump + number * PERIOD)
        decision, state = decide(later, SETTINGS, state, replicas=replicas)
        assert replicas <= decision.replicas <= SETTINGS.max_replicas
        replicas = decision.replicas
