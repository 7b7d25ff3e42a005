"""What a rollout tells about itself."""

import pytest

from inference_operator.api.reasons import ConditionType
from tests.status.situations import message, seen, told
from tests.testing.builders import deployment_status, inference_deployment


@pytest.mark.parametrize(
    ("asked", "how"),
    [
        ("Surge", "Each new engine starts before an old one ends, as `spec.rollout.strategy` says."),
        ("Replace", "Each old engine ends before a new one starts, as `spec.rollout.strategy` says."),
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
