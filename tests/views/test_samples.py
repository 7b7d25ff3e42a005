from dataclasses import replace

from inference_operator.views.samples import EngineActivity, EngineSample, Histogram, ProbeState, next_activity

BUSY = EngineSample("m", running=1, waiting=0, progress=(7.0,))
IDLE = replace(BUSY, running=0)
GAP = 60.0


def sampled(before: EngineActivity | None, sample: EngineSample, at: float, *, sessions: int = 0) -> EngineActivity:
    return next_activity(before, sample, sessions=sessions, at=at, longest_gap=GAP)


def activity_after(*samples: tuple[EngineSample, float, int]) -> EngineActivity:
    activity: EngineActivity | None = None
    for sample, at, sessions in samples:
        activity = sampled(activity, sample, at, sessions=sessions)
    assert activity is not None
    return activity


def test_time_without_progress_counts_from_the_first_busy_sample() -> None:
    assert activity_after((BUSY, 0, 0), (BUSY, 30, 0), (BUSY, 60, 0)).seconds_without_progress == 60


def test_an_idle_engine_has_no_time_without_progress() -> None:
    assert activity_after((IDLE, 0, 0), (IDLE, 30, 0)).seconds_without_progress == 0


def test_a_router_session_counts_as_a_request_of_the_engine() -> None:
    assert activity_after((IDLE, 0, 1), (IDLE, 30, 1)).seconds_without_progress == 30
    assert activity_after((IDLE, 0, 1), (IDLE, 30, 0), (IDLE, 40, 1)).seconds_without_progress == 0


def test_progress_of_an_engine_resets_its_time_without_progress() -> None:
    assert activity_after(
        (BUSY, 0, 0), (replace(BUSY, progress=(8.0,)), 30, 0), (replace(BUSY, progress=(8.0,)), 40, 0)
    ) == (EngineActivity(replace(BUSY, progress=(8.0,)), 0, 40, no_progress_since=30))


def test_reset_counters_count_as_progress() -> None:
    assert activity_after((BUSY, 0, 0), (replace(BUSY, progress=(0.0,)), 30, 0)).seconds_without_progress == 0


def test_a_long_gap_between_samples_resets_the_time_without_progress() -> None:
    assert activity_after((BUSY, 0, 0), (BUSY, GAP, 0)).seconds_without_progress == GAP
    assert activity_after((BUSY, 0, 0), (BUSY, GAP + 1, 0)).seconds_without_progress == 0


def test_a_probe_request_is_unanswered_until_the_engine_makes_progress() -> None:
    probed = activity_after((BUSY, 0, 0), (BUSY, 30, 0)).with_probe_sent()
    later = sampled(probed, BUSY, 50)
    assert (later.probe, later.unanswered_seconds) == (ProbeState.NO_RESPONSE, 20)
    moved = sampled(later, replace(BUSY, progress=(8.0,)), 60)
    assert (moved.probe, moved.unanswered_seconds) == (ProbeState.NOT_SENT, 0)


def test_a_probe_response_resets_the_time_without_progress() -> None:
    answered = activity_after((BUSY, 0, 0), (BUSY, 30, 0)).with_probe_sent().with_probe_answered(35)
    assert sampled(answered, BUSY, 45).seconds_without_progress == 10


def test_observations_are_evenly_spread_in_a_bucket() -> None:
    found = Histogram((1.0, 3.0, float("inf")), (80, 100, 100), 90.0)
    assert [found.part_within(limit) for limit in (1.0, 2.0, 9.0)] == [0.8, 0.9, 1.0]
    assert round(Histogram((1.0, 3.0, float("inf")), (0, 100, 100), 190.0).spread, 6) == 0.083333
