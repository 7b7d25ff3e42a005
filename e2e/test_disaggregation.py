"""Prefill and decode apart, with two real vLLM over TCP: after no fault is an answer another one than one engine's."""

import pytest

from e2e.engines.disaggregation import wrong_answers

SHORT = ("equality", "hostile", "dead_in_the_step")
"""No engine starts again in them."""


@pytest.mark.full  # how many prompts the other engine computes in time is a matter of free cores
def test_answers_of_two_engines_are_those_of_one() -> None:
    assert wrong_answers(SHORT, prompts=40) == dict.fromkeys(SHORT, "")


@pytest.mark.full  # six starts of vLLM, and a lease that ends: a quarter of an hour
def test_answers_of_two_engines_are_those_of_one_after_every_fault() -> None:
    wrong = wrong_answers(prompts=1000)
    assert len(wrong) == 14
    assert wrong == dict.fromkeys(wrong, "")
