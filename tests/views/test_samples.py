from dataclasses import replace

from inference_operator.views.samples import Asked, EngineSample, Watched, watched

BUSY = EngineSample("m", running=1, waiting=0, progress=(7.0,))
IDLE = replace(BUSY, running=0)
GAP = 60.0


def look(before: Watched | None, sample: EngineSample, at: float, *, sessions: int = 0) -> Watched:
    return watched(before, sample, sessions=sessions, at=at, longest_gap=GAP)


def over(*looks: tuple[EngineSample, float, int]) -> Watched:
    seen: Watched | None = None
    for sample, at, sessions in looks:
        seen = look(seen, sample, at, sessions=sessions)
    assert seen is not None
    return seen


def test_a_standstill_lasts_from_the_first_sample_that_shows_it() -> None:
    assert over((BUSY, 0, 0), (BUSY, 30, 0), (BUSY, 60, 0)).still_seconds == 60


def test_without_work_nothing_stands_still() -> None:
    assert over((IDLE, 0, 0), (IDLE, 30, 0)).still_seconds == 0


def test_a_request_that_a_router_has_with_it_is_work() -> None:
    assert over((IDLE, 0, 1), (IDLE, 30, 1)).still_seconds == 30
    assert over((IDLE, 0, 1), (IDLE, 30, 0), (IDLE, 40, 1)).still_seconds == 0


def test_progress_begins_it_anew() -> None:
    assert over((BUSY, 0, 0), (replace(BUSY, progress=(8.0,)), 30, 0), (replace(BUSY, progress=(8.0,)), 40, 0)) == (
        Watched(replace(BUSY, progress=(8.0,)), 0, 40, since=30)
    )


def test_counters_that_begin_anew_are_progress() -> None:
    assert over((BUSY, 0, 0), (replace(BUSY, progress=(0.0,)), 30, 0)).still_seconds == 0


def test_what_lies_in_a_long_gap_is_not_known() -> None:
    assert over((BUSY, 0, 0), (BUSY, GAP, 0)).still_seconds == GAP
    assert over((BUSY, 0, 0), (BUSY, GAP + 1, 0)).still_seconds == 0


def test_an_answer_is_owed_from_the_question_to_the_progress() -> None:
    asked = over((BUSY, 0, 0), (BUSY, 30, 0)).asked_now()
    later = look(asked, BUSY, 50)
    assert (later.asked, later.unanswered_seconds) == (Asked.WAITING, 20)
    moved = look(later, replace(BUSY, progress=(8.0,)), 60)
    assert (moved.asked, moved.unanswered_seconds) == (Asked.NOT, 0)


def test_an_answer_begins_it_anew_whatever_the_metrics_show() -> None:
    answered = over((BUSY, 0, 0), (BUSY, 30, 0)).asked_now().alive(35)
    assert look(answered, BUSY, 45).still_seconds == 10
