"""Events for transitions of the status."""

from collections.abc import Sequence

import pytest

from inference_operator.api.status import Status
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.events import MAX_NOTE_BYTES, events
from tests.status.rolling_states import UNDECIDED
from tests.status.situations import (
    CRASHING,
    HUNG,
    MINUTES,
    NO_IMAGE,
    OUT_OF_TRAFFIC,
    SERVING,
    loading,
    observed,
    reported,
    view,
)
from tests.testing.builders import deployment_status

STARTING, SERVES = loading(), SERVING
PULLING = loading(pods=[view(NO_IMAGE)])
ROLLING = observed(engines=deployment_status(2, updated=1, ready=1), routers=deployment_status(2))
STUCK = loading(pods=[view(NO_IMAGE)], before=reported(PULLING).status, minutes=MINUTES)
DOWN = loading(before=reported(SERVING).status, minutes=1)
LONG = loading(
    pods=[
        view(
            {
                **CRASHING,
                "containerStatuses": [
                    {
                        "name": "engine",
                        "state": {"terminated": {"exitCode": 1, "message": "é" * 4000}},
                    }
                ],
            }
        )
    ]
)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, STARTING, []),
        (None, PULLING, ["Warning ImagePullFailed"]),
        (STARTING, SERVES, ["Normal Serving"]),
        (STARTING, PULLING, ["Warning ImagePullFailed"]),
        (PULLING, PULLING, []),
        (PULLING, STARTING, []),
        (PULLING, STUCK, ["Warning ProgressDeadlineExceeded"]),
        (PULLING, SERVES, ["Normal Serving"]),
        (SERVES, SERVES, []),
        (SERVES, ROLLING, ["Normal RollingOut"]),
        (SERVES, UNDECIDED, []),
        (UNDECIDED, ROLLING, ["Normal RollingOut"]),
        (ROLLING, UNDECIDED, []),
        (ROLLING, SERVES, []),
        (SERVES, DOWN, ["Warning EnginesUnavailable"]),
        (DOWN, SERVES, ["Normal Serving"]),
        (SERVES, HUNG, ["Warning EngineStalled"]),
        (HUNG, HUNG, []),
        (SERVES, OUT_OF_TRAFFIC, ["Warning EngineNotProgressing"]),
        (OUT_OF_TRAFFIC, OUT_OF_TRAFFIC, []),
        (OUT_OF_TRAFFIC, SERVES, ["Normal Serving"]),
        (OUT_OF_TRAFFIC, HUNG, ["Warning EngineStalled"]),
        (HUNG, SERVES, []),
    ],
)
def test_each_status_transition_gives_its_events_once(
    before: Inputs | None, after: Inputs, expected: Sequence[str]
) -> None:
    recorded = events(reported(before).status if before else Status(), reported(after).status)
    assert [f"{event.kind} {event.reason}" for event in recorded] == expected
    assert all(event.note for event in recorded)


def test_the_note_of_an_event_has_at_most_the_length_that_kubernetes_accepts() -> None:
    (event,) = events(Status(), reported(LONG).status)
    assert 0 < len(event.note.encode()) <= MAX_NOTE_BYTES
