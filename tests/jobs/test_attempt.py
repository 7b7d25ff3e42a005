import pytest

from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.pending_causes import (
    CREATION_LOOKUP_AFTER,
    VOLUME_LOOKUP_AFTER,
    PendingWait,
)
from inference_operator.jobs.attempts import ATTEMPT_ANNOTATION, JOB_HASH_ANNOTATION, job_attempt
from inference_operator.manifest import Manifest
from inference_operator.views.lookups import EventsLookup
from inference_operator.views.pod import PodView, pod_view
from tests.testing.builders import NOW

WORDS = '{"model":"a/b"}'
AT = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")


def job(number: str = "3", **condition: str) -> Manifest:
    conditions = [{"status": "True", "lastTransitionTime": AT, **condition}] if condition else []
    annotations = {JOB_HASH_ANNOTATION: "a1b2", ATTEMPT_ANNOTATION: number}
    return {
        "metadata": {
            "name": "qwen-model-a1b2-3",
            "namespace": "default",
            "uid": "u",
            "creationTimestamp": AT,
            "annotations": annotations,
        },
        "status": {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, *conditions]},
    }


def pod(phase: str, state: Manifest, *, name: str = "qwen-model-a1b2-3-x7x7x") -> PodView:
    status = {"phase": phase, "containerStatuses": [{"name": "inspection", "state": state}]}
    return pod_view({"metadata": {"name": name}, "spec": {}, "status": status}, component="inspection")


ENDED = {"terminated": {"exitCode": 0, "message": WORDS}}


def test_the_attempt_of_a_running_job_is_unfinished() -> None:
    attempt = job_attempt(job(), [pod("Running", {"running": {}})])
    assert (attempt.job, attempt.job_hash, attempt.number) == ("qwen-model-a1b2-3", "a1b2", 3)
    assert (attempt.message, attempt.problem, attempt.finished, attempt.failure) == ("", None, None, "")


def test_an_attempt_has_the_termination_message_before_the_job_is_finished() -> None:
    attempt = job_attempt(job(), [pod("Succeeded", ENDED)])
    assert (attempt.message, attempt.finished) == (WORDS, None)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_the_attempt_of_a_finished_job_has_its_end_message_and_failure(exit_code: int) -> None:
    ended = {"terminated": {"exitCode": exit_code, "message": WORDS}}
    over = job(type="Failed", reason="BackoffLimitExceeded") if exit_code else job(type="Complete")
    attempt = job_attempt(over, [pod("Failed" if exit_code else "Succeeded", ended)])
    assert (attempt.message, attempt.problem, attempt.finished) == (WORDS, None, NOW)
    assert attempt.failure == ("container `inspection` ended with exit code 1" if exit_code else "")


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ({"exitCode": 137, "reason": "Error"}, "container `inspection` ended with exit code 137 (SIGKILL)"),
        ({"exitCode": 137, "reason": "OOMKilled"}, "container `inspection` used more memory than its limit"),
    ],
)
def test_an_attempt_whose_container_was_killed_says_so_instead_of_quoting_the_job(ended: Manifest, words: str) -> None:
    over = job(type="Failed", reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit")
    assert job_attempt(over, [pod("Failed", {"terminated": ended})]).failure == words


def test_a_job_that_exceeded_its_deadline_is_a_failed_attempt_without_a_pod() -> None:
    attempt = job_attempt(job(type="Failed", reason="DeadlineExceeded", message="Job was active longer"), [])
    assert (attempt.message, attempt.failure, attempt.finished) == ("", "Job was active longer", NOW)


def test_an_attempt_has_the_problem_of_its_pod() -> None:
    attempt = job_attempt(job(), [pod("Pending", {"waiting": {"reason": "ErrImagePull", "message": "not found"}})])
    assert attempt.problem
    assert (attempt.problem.reason, attempt.problem.cause) == (Reason.IMAGE_PULL_FAILED, "not found")


def test_an_attempt_ignores_pods_of_other_jobs() -> None:
    assert job_attempt(job(), [pod("Succeeded", ENDED, name="qwen-model-a1b2-33-x7x7x")]).message == ""


@pytest.mark.parametrize("number", ["", "many", "99999", "-1"])
def test_an_invalid_attempt_number_counts_as_one(number: str) -> None:
    assert job_attempt(job(number), []).number == 1


def test_the_termination_message_is_read_while_other_containers_still_run() -> None:
    """For example a service mesh's proxy, which does not end by itself."""
    assert pod("Running", ENDED).termination_message == pod("Succeeded", ENDED).termination_message != ""


def test_a_running_container_has_no_termination_message() -> None:
    assert pod("Running", {"running": {}}).termination_message == ""


def test_a_job_without_a_pod_waits_for_its_creation() -> None:
    wait = job_attempt(job(), []).wait
    assert wait == PendingWait(EventsLookup("default", "qwen-model-a1b2-3", "u"), NOW + CREATION_LOOKUP_AFTER)
    assert job_attempt(job(), [pod("Pending", {})]).wait is None


def test_a_scheduled_pod_without_a_sandbox_waits_for_its_volumes() -> None:
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": AT}
    meta = {"name": "qwen-model-a1b2-3-x7x7x", "uid": "p"}
    shown = {"metadata": meta, "spec": {}, "status": {"phase": "Pending", "conditions": [placed]}}
    wait = job_attempt(job(), [pod_view(shown, component="inspection")]).wait
    assert wait == PendingWait(EventsLookup("default", "qwen-model-a1b2-3-x7x7x", "p"), NOW + VOLUME_LOOKUP_AFTER)
