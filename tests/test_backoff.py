"""Exponential backoff."""

import pytest

from inference_operator.backoff import exponential_backoff


@pytest.mark.parametrize(("failures", "seconds"), [(1, 30.0), (2, 60.0), (5, 480.0), (6, 600.0), (7, 600.0)])
def test_backoff_doubles_with_each_failure_up_to_the_longest_wait(failures: int, seconds: float) -> None:
    assert exponential_backoff(failures, first=30.0, longest=600.0) == seconds


def test_backoff_after_very_many_failures_is_the_longest_wait_and_does_not_overflow() -> None:
    assert exponential_backoff(10**9, first=0.5, longest=120.0) == 120.0


def test_backoff_is_never_longer_than_the_longest_wait_even_after_one_failure() -> None:
    assert exponential_backoff(1, first=10.0, longest=5.0) == 5.0
