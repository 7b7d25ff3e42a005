"""A new task goes through its attempts, a failure and a result, and has said only what differs from other tasks."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from inference_operator.api.reasons import Reason
from inference_operator.jobs.attempts import FIRST_WAIT
from inference_operator.jobs.result import Cause, Failure, failure_text
from inference_operator.jobs.state import JOB_CLEANUP_DELAY, JobState, ObservedJobs, without_jobs
from inference_operator.manifest import CONFIG_MAP, JOB, Manifest, Owner, Ref
from inference_operator.models.config import NotUnderstood
from inference_operator.objects.cache_volume import CacheVolume
from inference_operator.settings import Settings
from inference_operator.views.pod import PodProblem, PodView
from tests.jobs import conversion
from tests.jobs.conversion import CONVERSION, conversion_state, text
from tests.jobs.shared import shared_context
from tests.testing.builders import KEY, NOW, UID, inference_deployment
from tests.testing.everything import POD_TEMPLATE, SCHEDULING
from tests.testing.inspected import over
from tests.testing.schemas import validate

FULL = Failure(Cause.DISK_FULL, NotUnderstood("hf://Qwen/Qwen3-8B", "does not fit.", "Enlarge the claim."))
LATER = NOW + FIRST_WAIT
RAW = inference_deployment()


def state(
    live: Mapping[Ref, Manifest] | None = None, *pods: PodView, now: datetime = NOW, raw: Manifest = RAW
) -> JobState[str]:
    shared = shared_context(raw, Owner(KEY, UID), Settings())
    return conversion_state(shared, CacheVolume("models", "key"), ObservedJobs(live or {}, pods, now, {}))


def ended(found: JobState[str], kind: str) -> dict[Ref, Manifest]:
    """What the state desires, once its last Job has ended."""
    *_, last = (ref for ref in found.desired if ref.kind == JOB)
    return {**found.desired, last: {**found.desired[last], "status": over(kind)}}


def pod(found: JobState[str], message: str = "", problem: PodProblem | None = None) -> PodView:
    """The pod of its last Job."""
    name = f"{found.jobs[-1]}-x"
    view = PodView(name, CONVERSION, None, ready=False, terminating=False, failed=False, problem=problem)
    return replace(view, termination_message=message)


def test_a_new_task_is_one_short_file() -> None:
    assert len(Path(conversion.__file__).read_text().splitlines()) <= 100


def test_the_job_of_a_new_task_is_valid_and_has_the_podtemplate_of_engines() -> None:
    found = state(raw=inference_deployment(podTemplate=POD_TEMPLATE, scheduling=SCHEDULING))
    (job,) = found.desired.values()
    validate(copy.deepcopy(job), "1.36")
    assert job["metadata"]["name"].startswith("qwen-conversion-")
    assert set(POD_TEMPLATE["annotations"]) <= set(job["spec"]["template"]["metadata"]["annotations"])


def test_a_new_task_tells_its_progress_and_why_its_pod_does_not_run() -> None:
    first = state()
    assert first.running
    assert first.message == f"Job {first.jobs[0]} converts the model on the claim models."
    waiting = state(first.desired, pod(first, problem=PodProblem(Reason.QUOTA_EXCEEDED, "exceeded quota: small")))
    assert "Its pod does not run: exceeded quota: small." in waiting.message


def test_a_failed_attempt_of_a_new_task_is_repeated_and_its_failure_is_told_until_another_ends() -> None:
    first = state()
    live, said = ended(first, "Failed"), pod(first, failure_text(FULL))
    failed = state(live, said)
    assert failed.refusal
    assert failed.refusal.reason is Reason.DISK_FULL
    assert failed.refusal.cure == "Enlarge the claim. It is converted again, at least every 10 minutes."
    assert failed.recheck_at(NOW) == LATER
    again = state(live, said, now=LATER)
    assert (len(again.jobs), again.refusal, again.running) == (2, failed.refusal, False)
    silent = state(live)
    assert silent.refusal
    assert silent.refusal.reason is Reason.DOWNLOAD_FAILED, "the task's own reason for a Job that told nothing"


def test_the_result_of_a_new_task_is_recorded_before_its_job_goes_and_makes_further_jobs_needless() -> None:
    first = state()
    done = state(ended(first, "Complete"), pod(first, text("/cache/model.gguf")))
    assert (done.complete, done.progress.result, done.message) == (True, "/cache/model.gguf", "")
    assert [ref.kind for ref in done.desired] == [CONFIG_MAP, JOB]
    assert done.recheck_at(NOW) == NOW + JOB_CLEANUP_DELAY
    kept = without_jobs(done.desired, CONVERSION)
    after = state(kept, now=NOW + timedelta(days=1))
    assert (after.progress.result, after.desired, after.recheck_at(NOW)) == ("/cache/model.gguf", kept, None)
