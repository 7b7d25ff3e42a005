import pytest

from inference_operator.manifest import Manifest
from inference_operator.views.workload import WorkloadView, workload_view
from tests.testing.builders import deployment_status


def deployment(status: Manifest | None, *, generation: int = 1) -> Manifest:
    return {"metadata": {"name": "qwen-engine", "generation": generation}, "status": status}


def test_where_there_is_none_nothing_runs() -> None:
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
def test_it_rolls_while_pods_of_an_earlier_template_may_be_there(
    status: Manifest | None, generation: int, *, rolling: bool
) -> None:
    assert workload_view(deployment(status, generation=generation)).rolling is rolling


def test_the_api_servers_words_on_pods_that_it_refuses_are_kept() -> None:
    message = 'pods "qwen-engine-7c9f" is forbidden: exceeded quota: small, requested: cpu=4, limited: cpu=2'
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    status = {**deployment_status(0), "conditions": [{"type": "Progressing", "status": "True"}, failure]}
    assert workload_view(deployment(status)).rejection == message
    over = {**status, "conditions": [{**failure, "status": "False"}]}
    assert workload_view(deployment(over)).rejection is None


@pytest.mark.parametrize(
    ("reason", "generation", "overdue"),
    [
        ("ProgressDeadlineExceeded", 1, True),
        ("ProgressDeadlineExceeded", 2, False),
        ("DeploymentPaused", 1, False),
    ],
)
def test_it_is_overdue_when_its_controller_says_so_of_the_latest_specification(
    reason: str, generation: int, *, overdue: bool
) -> None:
    progress = {"type": "Progressing", "status": "False", "reason": reason}
    status = {**deployment_status(1, ready=0), "conditions": [progress]}
    assert workload_view(deployment(status, generation=generation)).deadline_exceeded is overdue
