"""Messages of Reconciling about a rollout."""

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.api.status import StartupStatus, StartupStep, Status
from tests.status.rolling_states import UNDECIDED
from tests.status.situations import message, observed, reported, starting, view
from tests.testing.builders import deployment_status, inference_deployment


@pytest.mark.parametrize(
    ("asked", "how"),
    [
        ("Surge", "Each new engine starts before an old one ends, as `spec.rollout.strategy` says."),
        ("Replace", "Each old engine ends before a new one starts, as `spec.rollout.strategy` says."),
    ],
)
def test_reconciling_names_the_rollout_strategy_and_its_reason(asked: str, how: str) -> None:
    raw = inference_deployment(rollout={"strategy": asked})
    rolling = observed(raw, live=raw, engines=deployment_status(2, updated=1, ready=1), routers=deployment_status(2))
    assert message(reported(rolling), ConditionType.RECONCILING) == (
        f"Pods of the previous specification are being replaced. {how}"
    )
    routers_only = observed(
        raw, live=raw, engines=deployment_status(1), routers=deployment_status(3, updated=1, ready=2)
    )
    assert message(reported(routers_only), ConditionType.RECONCILING) == (
        "Pods of the previous specification are being replaced."
    )


def test_reconciling_names_the_wait_for_free_gpus_during_a_rollout() -> None:
    assert (
        message(reported(UNDECIDED), ConditionType.RECONCILING) == "Engines will be replaced once free GPUs are known."
    )


def test_reconciling_says_that_earlier_engines_serve_while_a_new_one_downloads_the_model() -> None:
    raw = inference_deployment(rollout={"strategy": "Surge"})
    new = view(starting(state={"running": {}}, started=False), age=1, name="qwen-engine-b")
    downloading = Status(startup=StartupStatus(pod=new.name, step=StartupStep.DOWNLOADING_MODEL))
    engines, routers = deployment_status(2, updated=1, ready=1), deployment_status(2)
    rolling = observed(raw, live=raw, engines=engines, routers=routers, pods=[new], before=downloading, minutes=5)
    said = message(reported(rolling), ConditionType.RECONCILING)
    assert "Earlier engines serve until it is ready. With `spec.cache` a Job downloads before the rollout." in said
