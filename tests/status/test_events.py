"""Events for transitions of the status."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from inference_operator.api.status import Status
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.events import MAX_NOTE_BYTES, events
from inference_operator.views.lookups import LogText
from tests.engines.test_root_error import OUTER
from tests.status.engine_states import log_of
from tests.status.job_states import INSPECTING, gated
from tests.status.rolling_states import UNDECIDED
from tests.status.situations import (
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
from tests.testing.builders import deployment_status, waiting

STARTING, SERVES, INSPECTION = loading(), SERVING, gated()
PULLING = loading(pods=[view(NO_IMAGE)])
ROLLING = observed(engines=deployment_status(2, updated=1, ready=1), routers=deployment_status(2))
STUCK = loading(pods=[view(NO_IMAGE)], before=reported(PULLING).status, minutes=MINUTES)
DOWN = loading(before=reported(SERVING).status, minutes=1)
LONG = loading(pods=[view(waiting("ImagePullBackOff", "é" * 4000))])
ENDED = view(waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": 1, "message": "RuntimeError: failed"}}))


def ended(log: str | None) -> Inputs:
    """An engine that ended, with the log that was read of it."""
    situation = loading(pods=[ENDED])
    return replace(situation, lookups={log_of(ENDED): LogText(log)}) if log else situation


def crash(number: int) -> Inputs:
    """An engine that ended another time, for the same cause."""
    return ended(f"(EngineCore pid={number}) ValueError: no port 4{number}1 after {number}.5 s\n{OUTER}")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, STARTING, ["Normal Starting"]),
        (STARTING, STARTING, []),
        (None, INSPECTION, ["Normal InspectingModel"]),
        (INSPECTION, INSPECTION, []),
        (INSPECTION, STARTING, ["Normal Starting"]),
        (INSPECTION, INSPECTING, ["Warning ContainerConfigError"]),
        (INSPECTING, STARTING, []),
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
        (STARTING, ended(None), []),
        (ended(None), crash(11), ["Warning CrashLoop"]),
        (ended(None), ended("CUDA out of memory"), ["Warning GpuOutOfMemory"]),
        (crash(11), crash(22), []),
        (crash(11), ended(None), []),
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


def test_ends_of_one_cause_have_one_note_so_that_their_events_are_counted() -> None:
    """Between two ends an engine may seem to start, for example as its successor does."""
    notes = [
        event.note
        for number in (11, 22, 33)
        for event in events(reported(STARTING).status, reported(crash(number)).status)
    ]
    assert len(notes) == 3
    assert len(set(notes)) == 1
    assert "ValueError: no port … after … s" in notes[0]
