"""Causes in Events about a pod that cannot be created."""

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.pending_causes import problem_from_events, rejection_cure, rejection_reason
from inference_operator.views.lookups import EventSummary, ObjectEvents

QUOTA = "exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2"
LEVEL = 'violates PodSecurity "restricted:latest": unrestricted capabilities'
HOOK = 'admission webhook "deny.example" denied the request: no'


def object_events(*events: tuple[str, str]) -> ObjectEvents:
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
def test_the_problem_of_a_rejected_pod_is_the_same_at_each_attempt(message: str, reason: Reason, cause: str) -> None:
    """The cause omits the name of the pod, which differs at each attempt."""
    problem = problem_from_events(object_events(("FailedCreate", message)))
    assert problem is not None
    assert (problem.reason, problem.cause) == (reason, f"Kubernetes refuses it: {cause}")
    assert bool(problem.cure) == (reason is Reason.QUOTA_EXCEEDED)


@pytest.mark.parametrize(
    ("unstated", "cure"),
    [
        (
            "limits.cpu for: engine; limits.memory for: adapters,engine",
            (
                "Set `spec.engine.resources.limits.cpu` and `spec.engine.resources.limits.memory`, or the operator's"
                " `engineDefaults.limitRequestRatio`."
            ),
        ),
        (
            "memory for: router",
            "Set `spec.router.resources.requests.memory`, or the operator's `routerDefaults.resources`.",
        ),
    ],
)
def test_a_quota_on_what_a_pod_does_not_state_is_exceeded_and_names_the_fields(unstated: str, cure: str) -> None:
    message = f"failed quota: small: must specify {unstated}"
    assert rejection_reason(message) is Reason.QUOTA_EXCEEDED
    assert rejection_cure(message) == cure


def test_a_rejection_before_the_pod_was_created_is_no_problem() -> None:
    events = [("SuccessfulCreate", "Created pod: a"), ("FailedCreate", f"Error creating: {QUOTA}")]
    assert problem_from_events(object_events(*events)) is None
    assert problem_from_events(object_events(*reversed(events))) is not None


@pytest.mark.parametrize("events", [(), (("DeadlineExceeded", "Job was active longer than specified deadline"),)])
def test_events_without_a_known_cause_are_no_problem(events: tuple[tuple[str, str], ...]) -> None:
    assert problem_from_events(object_events(*events)) is None
