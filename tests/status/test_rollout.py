"""What a rollout tells about itself."""

import pytest

from inference_operator.api.reasons import ConditionType
from tests.builders import deployment_status, inference_deployment
from tests.status.situations import message, seen, told


@pytest.mark.parametrize(
    ("asked", "how"),
    [
        ("Surge", "Each new engine starts before its predecessor ends, as `spec.rollout.strategy` asks."),
        ("Replace", "One engine at a time ends before its successor starts, as `spec.rollout.strategy` asks."),
    ],
)
def test_a_rollout_says_how_it_goes_and_why(asked: str, how: str) -> None:
    raw = inference_deployment(rollout={"strategy": asked})
    rolling = seen(raw, live=raw, engines=deployment_status(2, updated=1, ready=1), routers=deployment_status(2))
    assert message(told(rolling), ConditionType.RECONCILING) == (
        f"Pods of the previous specification are being replaced. {how}"
    )
    routers_only = seen(raw, live=raw, engines=deployment_status(1), routers=deployment_status(3, updated=1, ready=2))
    assert message(told(routers_only), ConditionType.RECONCILING) == (
        "Pods of the previous specification are being replaced."
    )
