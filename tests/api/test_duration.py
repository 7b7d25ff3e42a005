from datetime import timedelta

import pytest

from inference_operator.api.duration import duration, in_words
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from tests.testing.builders import inference_deployment


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("1h0m1s", 3601), ("1m1m", 120), ("0s", 0)]
)
def test_a_valid_duration_is_parsed(text: str, seconds: int) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "-5m", "1.5h", "5d", "5M", "٣m", "123456s", "1m" * 9, "5m\n"])
def test_an_invalid_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="for example `90s`"):
        duration(text)


@pytest.mark.parametrize("value", ["1h1s", "0s", "soon", "", 300, None, True, ["5m"], 1e300])
def test_an_invalid_drain_timeout_is_refused_with_its_bounds(value: object) -> None:
    spec = resource(inference_deployment(drainTimeout=value)).spec
    assert isinstance(spec, Refusal)
    assert spec.message == (
        "spec.drainTimeout: must be a duration of at least `1s` and at most `1h`, for example `5m`. Change the field."
    )


def test_omitted_durations_of_the_spec_have_their_defaults() -> None:
    spec = resource(inference_deployment()).spec
    assert isinstance(spec, Spec)
    assert spec.drain_timeout == timedelta(minutes=5)
    assert spec.startup_timeout is None
    assert spec.rollout.progress_deadline is None


def test_durations_at_their_bounds_are_accepted() -> None:
    spec = resource(inference_deployment(drainTimeout="1h", startupTimeout="60s")).spec
    assert isinstance(spec, Spec)
    assert (spec.drain_timeout, spec.startup_timeout) == (timedelta(hours=1), timedelta(minutes=1))


@pytest.mark.parametrize(
    ("seconds", "words"), [(5400, "90 minutes"), (7200, "2 hours"), (3600, "1 hour"), (61, "61 seconds")]
)
def test_a_duration_is_shown_in_its_largest_whole_unit(seconds: int, words: str) -> None:
    assert in_words(timedelta(seconds=seconds)) == words
