import pytest

from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.pending_causes import CREATION_PATIENCE, VOLUME_PATIENCE, PendingWait
from inference_operator.inspection.job_attempt import ATTEMPT_ANNOTATION, JOB_HASH_ANNOTATION, attempt
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


def test_a_job_that_goes_on() -> None:
    found = attempt(job(), [pod("Running", {"running": {}})])
    assert (found.job, found.asked, found.number) == ("qwen-model-a1b2-3", "a1b2", 3)
    assert (found.words, found.problem, found.finished, found.failure) == ("", None, None, "")


def test_the_words_of_a_pod_count_before_its_job_knows() -> None:
    found = attempt(job(), [pod("Succeeded", ENDED)])
    assert (found.words, found.finished) == (WORDS, None)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_job_that_is_over(exit_code: int) -> None:
    ended = {"terminated": {"exitCode": exit_code, "message": WORDS}}
    over = job(type="Failed", reason="BackoffLimitExceeded") if exit_code else job(type="Complete")
    found = attempt(over, [pod("Failed" if exit_code else "Succeeded", ended)])
    assert (found.words, found.problem, found.finished) == (WORDS, None, NOW)
    assert found.failure == ("BackoffLimitExceeded" if exit_code else "")


def test_a_job_whose_time_is_up_has_no_pod() -> None:
    found = attempt(job(type="Failed", reason="DeadlineExceeded", message="Job was active longer"), [])
    assert (found.words, found.failure, found.finished) == ("", "Job was active longer", NOW)


def test_why_its_pod_does_not_run() -> None:
    found = attempt(job(), [pod("Pending", {"waiting": {"reason": "ErrImagePull", "message": "not found"}})])
    assert found.problem
    assert (found.problem.reason, found.problem.cause) == (Reason.IMAGE_PULL_FAILED, "not found")


def test_pods_of_other_jobs_say_nothing_about_it() -> None:
    assert attempt(job(), [pod("Succeeded", ENDED, name="qwen-model-a1b2-33-x7x7x")]).words == ""


@pytest.mark.parametrize("number", ["", "many", "99999", "-1"])
def test_a_number_that_a_hand_has_broken_counts_from_one(number: str) -> None:
    assert attempt(job(number), []).number == 1


def test_a_pod_whose_other_containers_run_on_has_said_its_last_words() -> None:
    """As with a mesh's proxy, which nobody tells to end."""
    assert pod("Running", ENDED).last_words == pod("Succeeded", ENDED).last_words != ""


def test_what_other_containers_say_at_their_end_are_not_its_last_words() -> None:
    assert pod("Running", {"running": {}}).last_words == ""


def test_a_job_without_a_pod_waits_for_it() -> None:
    found = attempt(job(), []).wait
    assert found == PendingWait(EventsLookup("default", "qwen-model-a1b2-3", "u"), NOW + CREATION_PATIENCE)
    assert attempt(job(), [pod("Pending", {})]).wait is None


def test_a_pod_without_its_volumes_waits_for_them() -> None:
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": AT}
    meta = {"name": "qwen-model-a1b2-3-x7x7x", "uid": "p"}
    shown = {"metadata": meta, "spec": {}, "status": {"phase": "Pending", "conditions": [placed]}}
    found = attempt(job(), [pod_view(shown, component="inspection")]).wait
    assert found == PendingWait(EventsLookup("default", "qwen-model-a1b2-3-x7x7x", "p"), NOW + VOLUME_PATIENCE)
