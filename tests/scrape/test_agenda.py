import pytest

from inference_operator.manifest import Key
from inference_operator.scrape.agenda import CALM_ROUNDS, JITTER, MOST_ROUNDS, Agenda

A, B = Key("default", "a"), Key("default", "b")
ROUND = 10.0


@pytest.fixture
def agenda() -> Agenda:
    """Everything is being looked at for the first time."""
    agenda = Agenda(ROUND)
    agenda.due([A, B], now=ROUND - CALM_ROUNDS * ROUND)
    assert agenda.due([A, B], now=ROUND) == [A, B]
    return agenda


def wait(agenda: Agenda, key: Key, now: float) -> float:
    """Rounds until a key is due again."""
    return next(n / 100 for n in range(100 * 2 * MOST_ROUNDS) if agenda.due([key], now=now + n / 100 * ROUND))


def test_what_is_being_looked_at_is_not_due(agenda: Agenda) -> None:
    assert agenda.due([A, B], now=10 * ROUND) == []


@pytest.mark.parametrize(("urgent", "rounds"), [(True, 1), (False, CALM_ROUNDS)])
def test_what_gets_on_is_looked_at_less_often(agenda: Agenda, urgent: bool, rounds: int) -> None:  # noqa: FBT001 - a column
    agenda.done(A, now=ROUND, urgent=urgent, failed=False)
    assert wait(agenda, A, ROUND) == pytest.approx(rounds, rel=JITTER + 0.01)


def test_what_does_not_answer_is_looked_at_ever_less_often_and_at_once_as_often_again(agenda: Agenda) -> None:
    waits, now = [], ROUND
    for _ in range(6):
        agenda.done(A, now=now, urgent=False, failed=True)
        waits.append(wait(agenda, A, now))
        now += waits[-1] * ROUND
    assert waits == [pytest.approx(rounds, rel=JITTER + 0.01) for rounds in (2, 4, 8, 16, 16, 16)]
    agenda.done(A, now=now, urgent=True, failed=False)
    assert wait(agenda, A, now) == pytest.approx(1, rel=JITTER + 0.01)


def test_what_is_gone_is_forgotten(agenda: Agenda) -> None:
    assert agenda.due([B], now=ROUND) == []
    agenda.done(A, now=ROUND, urgent=True, failed=True)
    assert agenda.due([B], now=100 * ROUND) == []
