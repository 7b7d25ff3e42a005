"""Progress of a model's inspection, from its attempts."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.reasons import Reason
from inference_operator.jobs.attempts import (
    FIRST_WAIT,
    LONGEST_WAIT,
    Attempt,
    AttemptsProgress,
    JobWait,
    wait_after,
)
from inference_operator.jobs.attempts import attempts_progress as progress_of
from inference_operator.jobs.inspection_result import parsed_result, result_text
from inference_operator.jobs.result import Cause, Failure
from inference_operator.models.checkpoint import Weights
from inference_operator.models.config import NotUnderstood
from inference_operator.models.entry import Entry
from inference_operator.views.pod import PodProblem
from tests.testing.builders import NOW

FOUND = Entry("a/b", "hf://a/b@1:config.json", {"num_hidden_layers": 2}, Weights(7, "one file"))
GATED = Failure(Cause.GATED, NotUnderstood("hf://a/b", "is gated.", "Set `HF_TOKEN`."))
NO_IMAGE = PodProblem(Reason.IMAGE_PULL_FAILED, "not found")
PULL = "not found. Check the image name, and the pull secret of the namespace's default ServiceAccount."
OVERDUE = "Job was active longer than specified deadline"


def attempts_progress(attempts: Sequence[Attempt], now: datetime, *, wanted: bool) -> AttemptsProgress[Entry]:
    return progress_of(attempts, now, wanted=wanted, subject="the model's files", parse=parsed_result)


def failed(number: int = 1) -> Attempt:
    return Attempt("job", "asked", number, result_text(GATED), finished=NOW, failure="BackoffLimitExceeded")


def running(number: int, problem: PodProblem | None = None) -> Attempt:
    return Attempt("job", "asked", number, problem=problem, created=NOW)


def test_the_first_inspection_job_is_wanted_if_there_are_no_attempts() -> None:
    assert attempts_progress([], NOW, wanted=True) == AttemptsProgress((1,))


def test_inspection_progress_has_the_cause_why_the_pod_of_the_current_attempt_does_not_run() -> None:
    assert attempts_progress([running(1, NO_IMAGE)], NOW, wanted=True) == AttemptsProgress(
        (1,), waiting=JobWait(Reason.IMAGE_PULL_FAILED, PULL, NOW)
    )


@pytest.mark.parametrize("finished", [None, NOW])
def test_an_inspection_result_counts_before_its_job_finishes_and_the_job_stays_until_the_result_is_stored(
    finished: object,
) -> None:
    attempt = Attempt("job", "asked", 2, result_text(FOUND), finished=NOW if finished else None)
    assert attempts_progress([failed(), attempt], NOW, wanted=True) == AttemptsProgress((2,), FOUND)


def test_a_failed_inspection_attempt_is_followed_by_another_after_the_backoff() -> None:
    due = NOW + FIRST_WAIT
    assert attempts_progress([failed()], NOW, wanted=True) == AttemptsProgress((1,), failure=GATED, again=due)
    assert attempts_progress([failed()], due - timedelta(seconds=1), wanted=True).jobs == (1,)
    assert attempts_progress([failed()], due, wanted=True) == AttemptsProgress((1, 2), failure=GATED)


def test_the_failure_of_an_inspection_attempt_is_kept_while_the_next_attempt_runs() -> None:
    assert attempts_progress([failed(), running(2)], NOW, wanted=True) == AttemptsProgress((1, 2), failure=GATED)
    assert attempts_progress([failed(1), failed(2)], NOW, wanted=True).jobs == (2,)


def test_after_an_inspection_timeout_the_failure_names_why_the_next_attempts_pod_does_not_run() -> None:
    timed_out = Attempt("j", "a", 1, namespace="default", finished=NOW, failure=OVERDUE)
    failure = attempts_progress([timed_out, running(2, NO_IMAGE)], NOW, wanted=True).failure
    assert failure
    assert (failure.cause, failure.reason) == (Cause.TIMED_OUT, Reason.IMAGE_PULL_FAILED)
    assert failure.message.strip() == f"the model's files: the pod of the next attempt does not run: {PULL}"


def test_after_an_inspection_timeout_the_failure_names_why_the_pod_was_not_created() -> None:
    refused = PodProblem(Reason.QUOTA_EXCEEDED, "Kubernetes refuses it: exceeded quota: small")
    timed_out = Attempt("j", "a", 1, namespace="default", finished=NOW, failure=OVERDUE, problem=refused)
    failure = attempts_progress([timed_out], NOW, wanted=True).failure
    assert failure
    words = "the pod of Job j did not run in time: Kubernetes refuses it: exceeded quota: small."
    assert failure.why.problem.startswith(words)
    assert failure.reason is Reason.QUOTA_EXCEEDED


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (
            PodProblem(Reason.QUOTA_EXCEEDED, "exceeded quota: small"),
            "exceeded quota: small. Raise the quota in the message, or lower the requests.",
        ),
        (PodProblem(Reason.VOLUME_UNAVAILABLE, "in use", cure="End that."), "in use. End that."),
        (
            PodProblem(Reason.UNSCHEDULABLE, "no nodes available to schedule pods"),
            "the cluster has no nodes. Add a suitable node, free resources on an existing one, or request less.",
        ),
    ],
)
def test_the_problem_of_a_waiting_inspection_attempt_has_a_cure(problem: PodProblem, words: str) -> None:
    assert attempts_progress([running(1, problem)], NOW, wanted=True).waiting == JobWait(problem.reason, words, NOW)


def test_an_inspection_that_is_no_longer_needed_starts_no_further_attempt() -> None:
    kept: AttemptsProgress[Entry] = AttemptsProgress((1,), failure=GATED)
    assert attempts_progress([failed()], NOW + LONGEST_WAIT, wanted=False) == kept, "its Job has the cause"
    assert (
        attempts_progress([], NOW, wanted=False)
        == attempts_progress([running(1)], NOW, wanted=False)
        == AttemptsProgress()
    )


@pytest.mark.parametrize(
    ("over", "words"),
    [
        (
            Attempt(
                "j", "a", 1, namespace="default", finished=NOW, failure="Job was active longer than specified deadline"
            ),
            "active longer",
        ),
        (Attempt("j", "a", 1, "Traceback: boom\n", namespace="default", finished=NOW), "Traceback: boom"),
        (Attempt("j", "a", 1, namespace="default", finished=NOW), "its pod wrote no message"),
    ],
)
def test_a_finished_job_without_a_valid_result_is_a_failure_that_names_the_job(over: Attempt, words: str) -> None:
    failure = attempts_progress([over], NOW, wanted=True).failure
    assert failure
    assert words in failure.message
    assert failure.message.startswith("the model's files: Job j ended without a result: ")
    assert failure.message.endswith("`kubectl describe -n default job/j` shows more.")


@given(st.integers(1, 9999))
def test_failed_inspections_are_retried_with_backoff(number: int) -> None:
    assert FIRST_WAIT <= wait_after(number) <= LONGEST_WAIT


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), unique_by=lambda one: one[0], max_size=5),
    st.integers(0, 2000),
)
def test_at_most_one_inspection_job_runs(seen: list[tuple[int, bool]], seconds: int) -> None:
    attempts = [failed(number) if over else running(number) for number, over in seen]
    made = attempts_progress(attempts, NOW + timedelta(seconds=seconds), wanted=True)
    over = {number for number, ended in seen if ended}
    assert made.jobs
    assert len(set(made.jobs) - over) <= 1
