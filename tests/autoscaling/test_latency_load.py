"""The lengths of requests that engines count: from samples to the load of the target."""

from dataclasses import replace
from math import inf

import pytest

from inference_operator.api.status import AutoscalingStatus, LoadStatus
from inference_operator.autoscaling.decision import ScalingSettings
from inference_operator.autoscaling.inputs import measured_load
from inference_operator.autoscaling.latency import LENGTH_STEP, LatencyWindow, target_correction
from inference_operator.autoscaling.target import Target, TargetBound
from inference_operator.sizing.serving import MOST_SPREAD, TYPICAL_LOAD, Load
from inference_operator.views.samples import EngineSample, Histogram, TokenCounts

BOUNDS = (0.01, 0.05, 2.0, inf)
SETTINGS = ScalingSettings(1, 8, 40.0, start_seconds=60, idle_seconds=600)
TARGET = Target(40.0, TargetBound.TOKEN_TIME, {TargetBound.SEQUENCES: 256.0, TargetBound.TOKEN_TIME: 40.0})


def sample(requests: float, *, prompt: float, answer: float, cached: float = 0.0) -> EngineSample:
    """An engine after this many requests of these lengths, all of them in time."""
    counts = (0.0, requests, requests, requests)
    tokens = TokenCounts(requests, prompt * requests, answer * requests, prompt * requests, cached * prompt * requests)
    latency = Histogram(BOUNDS, counts, 0.03 * requests)
    return EngineSample("m", 30, 0, (requests,), finished=requests, ttft=latency, tpot=latency, tokens=tokens)


def window(*samples: EngineSample) -> LatencyWindow:
    found = LatencyWindow()
    for number, one in enumerate(samples):
        found = found.after({"a": one}, at=60.0 * (number + 1))
    return found


def corrected(found: LatencyWindow, target: Target = TARGET) -> tuple[float, Load]:
    factor, load, _ = target_correction(found, target, SETTINGS, decides=True)
    return factor, load


def test_enough_requests_of_other_lengths_replace_the_typical_ones_and_correct_nothing() -> None:
    first, last = sample(100, prompt=900, answer=50), sample(400, prompt=900, answer=50, cached=0.25)
    factor, load = corrected(window(first, last))
    assert (load.prompt, load.answer) == (900, 50)
    assert 0.3 < load.cached <= 0.34, "of the 300 requests in the window"
    assert factor == 1.0


def test_few_requests_or_nearly_equal_lengths_change_nothing() -> None:
    few = window(sample(0, prompt=1, answer=1), sample(150, prompt=900, answer=50))
    assert corrected(few)[1] == TYPICAL_LOAD
    near = TYPICAL_LOAD.prompt * LENGTH_STEP * 0.97
    same = window(sample(0, prompt=1, answer=1), sample(1500, prompt=near, answer=TYPICAL_LOAD.answer))
    assert corrected(same)[1] == TYPICAL_LOAD
    assert corrected(same)[0] > 1.0, "then the latencies correct the target"


def test_an_engine_that_started_again_counts_from_zero_and_one_without_counts_says_nothing() -> None:
    again = window(sample(5000, prompt=10, answer=10), sample(300, prompt=900, answer=50))
    assert corrected(again)[1] == Load(900, 50)
    silent = [replace(one, tokens=None) for one in (sample(0, prompt=1, answer=1), sample(300, prompt=900, answer=50))]
    assert corrected(window(*silent))[1] == TYPICAL_LOAD


def test_the_spread_of_lengths_is_learnt_and_what_was_known_counts_as_1000_requests() -> None:
    def counted(requests: float) -> EngineSample:
        lengths = Histogram((100.0, 1000.0, 10_000.0, inf), (0.9 * requests, 0.9 * requests, requests, requests), 0.0)
        even = Histogram((1700.0, 1750.0, inf), (0.0, requests, requests), 0.0)
        return replace(sample(requests, prompt=1732, answer=316), prompts=even, answers=lengths)

    few, many = (corrected(window(counted(0), counted(number)))[1] for number in (250, 100_000))
    spread = 0.1 * (111 / 3 * 1e6) / (0.1 * 5500 + 0.9 * 50) ** 2 - 1
    assert many.answer_spread == pytest.approx(spread, rel=0.05)
    assert few.answer_spread == pytest.approx(spread / 5, rel=0.05)
    assert (round(few.prompt_spread, 1), many.prompt_spread) == (0.8, 0.0)


@pytest.mark.parametrize(
    ("guessed", "accepted", "before", "after"),
    [
        (0, 0, None, None),
        (9000, 3600, None, 0.4),
        (9000, 0, None, 0.0),
        (9000, 3600, 0.35, 0.35),
        (9000, 3600, 0.8, 0.4),
        (9000, 99_999, None, 1.0),
        (0, 0, 0.8, 0.8),  # no request guessed in this window
    ],
)
def test_the_part_of_accepted_guesses_is_measured(
    guessed: float, accepted: float, before: float | None, after: float | None
) -> None:
    load = replace(TYPICAL_LOAD, accepted=before)
    first, last = (sample(number, prompt=load.prompt, answer=load.answer) for number in (0, 300))
    assert last.tokens is not None
    last = replace(last, tokens=replace(last.tokens, guessed=guessed, accepted=accepted))
    found = corrected(window(first, last), replace(TARGET, load=load))[1]
    assert found == replace(load, accepted=after)


def test_a_target_of_the_user_measures_nothing() -> None:
    found = window(sample(0, prompt=1, answer=1), sample(300, prompt=900, answer=50))
    assert corrected(found, replace(TARGET, bound=TargetBound.REQUESTED)) == (1.0, TYPICAL_LOAD)


def test_impossible_lengths_in_an_edited_status_become_possible_ones() -> None:
    load = LoadStatus(
        prompt_tokens=-5, answer_tokens=0, cached=7.0, prompt_spread=-1.0, answer_spread=1e9, accepted=3.0
    )
    recorded = AutoscalingStatus(desired_replicas=1, load=load)
    assert measured_load(recorded, None) == Load(1.0, 1.0, 1.0, 0.0, MOST_SPREAD, 1.0)
