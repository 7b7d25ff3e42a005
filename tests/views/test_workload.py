from dataclasses import replace

import pytest

from inference_operator.manifest import Manifest
from inference_operator.views.workload import WorkloadView, combined, workload_view
from tests.testing.builders import deployment_status


def deployment(status: Manifest | None, *, generation: int = 1) -> Manifest:
    return {"metadata": {"name": "qwen-engine", "generation": generation}, "status": status}


def test_the_view_of_an_absent_workload_is_empty_and_not_rolling() -> None:
    assert workload_view(None) == WorkloadView()
    assert not workload_view(None).rolling


@pytest.mark.parametrize(
    ("status", "generation", "rolling"),
    [
        (None, 1, True),
        ({}, 1, True),
        (deployment_status(2), 1, False),
        (deployment_status(2, ready=0), 1, False),
        (deployment_status(3, updated=1, ready=2), 1, True),
        (deployment_status(2), 2, True),
        (deployment_status(2, seen=2), 2, False),
        (deployment_status(0), 1, False),
    ],
)
def test_a_workload_is_rolling_while_pods_of_an_earlier_template_may_exist(
    status: Manifest | None, generation: int, *, rolling: bool
) -> None:
    assert workload_view(deployment(status, generation=generation)).rolling is rolling


def test_the_view_of_a_deployment_has_the_api_servers_message_about_rejected_pods() -> None:
    message = 'pods "qwen-engine-7c9f" is forbidden: exceeded quota: small, requested: cpu=4, limited: cpu=2'
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    status = {**deployment_status(0), "conditions": [{"type": "Progressing", "status": "True"}, failure]}
    assert workload_view(deployment(status)).rejection == message
    over = {**status, "conditions": [{**failure, "status": "False"}]}
    assert workload_view(deployment(over)).rejection == ""


@pytest.mark.parametrize(
    ("reason", "generation", "overdue"),
    [
        ("ProgressDeadlineExceeded", 1, True),
        ("ProgressDeadlineExceeded", 2, False),
        ("DeploymentPaused", 1, False),
    ],
)
def test_a_deployments_progress_deadline_is_exceeded_only_for_its_latest_generation(
    reason: str, generation: int, *, overdue: bool
) -> None:
    progress = {"type": "Progressing", "status": "False", "reason": reason}
    status = {**deployment_status(1, ready=0), "conditions": [progress]}
    assert workload_view(deployment(status, generation=generation)).deadline_exceeded is overdue


SERVING = WorkloadView(exists=True, observed=True, desired=2, replicas=2, updated=2, ready=2)


def test_a_workload_view_is_not_ready_while_the_workload_of_a_role_is_missing() -> None:
    assert combined([SERVING, WorkloadView()]).ready == 0


def test_a_role_that_exceeded_its_progress_deadline_does_not_fail_the_rollout_of_another_role() -> None:
    served = replace(SERVING, ready=1, deadline_exceeded=True)
    rolling = replace(SERVING, replicas=3, updated=1)
    assert not served.failed
    assert not combined([served, rolling]).failed
    assert combined([SERVING, replace(rolling, deadline_exceeded=True)]).failed
