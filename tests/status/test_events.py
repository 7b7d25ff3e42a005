"""Which transitions are told as Events."""

from collections.abc import Sequence

import pytest

from inference_operator.api.status import Status
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.events import MAX_NOTE_BYTES, events
from tests.status.situations import CRASHING, HUNG, MINUTES, NO_IMAGE, SERVING, loading, seen, told, view
from tests.testing.builders import deployment_status

STARTING, SERVES = loading(), SERVING
PULLING = loading(pods=[view(NO_IMAGE)])
ROLLING = seen(engines=deployment_status(2, updated=1, ready=1), routers=deployment_status(2))
STUCK = loading(pods=[view(NO_IMAGE)], before=told(PULLING).status, minutes=MINUTES)
DOWN = loading(before=told(SERVING).status, minutes=1)
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
        (ROLLING, SERVES, []),
        (SERVES, DOWN, ["Warning EnginesUnavailable"]),
        (DOWN, SERVES, ["Normal Serving"]),
        (SERVES, HUNG, ["Warning EngineStalled"]),
        (HUNG, HUNG, []),
        (HUNG, SERVES, []),
    ],
)
def test_a_transition_is_told_once(before: Inputs | None, after: Inputs, expected: Sequence[str]) -> None:
    found = events(told(before).status if before else Status(), told(after).status)
    assert [f"{event.kind} {event.reason}" for event in found] == expected
    assert all(event.note for event in found)


def test_a_note_is_as_long_as_kubernetes_takes() -> None:
    (event,) = events(Status(), told(LONG).status)
    assert 0 < len(event.note.encode()) <= MAX_NOTE_BYTES
