"""What Events tell of a pod that is not made."""

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.pending_causes import problem_from_events
from inference_operator.views.lookups import EventSummary, ObjectEvents
from inference_operator.views.pod import PodProblem

QUOTA = "exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2"
LEVEL = 'violates PodSecurity "restricted:latest": unrestricted capabilities'
HOOK = 'admission webhook "deny.example" denied the request: no'


def told(*events: tuple[str, str]) -> ObjectEvents:
    return ObjectEvents(tuple(EventSummary(reason, message) for reason, message in events))


@pytest.mark.parametrize(
    ("message", "reason", "cause"),
    [
        (f'Error creating: pods "qwen-model-a1-1-x7x7x" is forbidden: {QUOTA}', Reason.QUOTA_EXCEEDED, QUOTA),
        (
            f'(combined from similar events): Error creating: pods "qwen-model-a1-1-b2b2b" is forbidden: {QUOTA}',
            Reason.QUOTA_EXCEEDED,
            QUOTA,
        ),
        (f'Error creating: pods "qwen-model-a1-1-x7x7x" is forbidden: {LEVEL}', Reason.POD_REJECTED, LEVEL),
        (f"Error creating: {HOOK}", Reason.POD_REJECTED, HOOK),
    ],
)
def test_a_pod_that_is_refused(message: str, reason: Reason, cause: str) -> None:
    """In the same words at each attempt, although each gives the pod another name."""
    assert problem_from_events(told(("FailedCreate", message))) == PodProblem(reason, f"Kubernetes refuses it: {cause}")


def test_a_pod_that_was_refused_before_it_was_made() -> None:
    events = [("SuccessfulCreate", "Created pod: a"), ("FailedCreate", f"Error creating: {QUOTA}")]
    assert problem_from_events(told(*events)) is None
    assert problem_from_events(told(*reversed(events))) is not None


@pytest.mark.parametrize("events", [(), (("DeadlineExceeded", "Job was active longer than specified deadline"),)])
def test_where_nothing_is_told_nothing_is_guessed(events: tuple[tuple[str, str], ...]) -> None:
    assert problem_from_events(told(*events)) is None
