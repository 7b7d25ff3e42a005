"""`infd drill` asks for fewer engines, until a deadline that the operator keeps."""

from datetime import timedelta
from typing import Any

import pytest

from inference_operator.api.drill import DRILL_ANNOTATION, Drill
from inference_operator.manifest import DEPLOYMENT, Manifest, Ref
from tests.testing.builders import NOW, inference_deployment, planned

SOON = NOW + timedelta(minutes=1)


def replicas(value: str, **spec: Any) -> tuple[int, bool, str]:  # noqa: ANN401 - any JSON
    """The replicas of the engines, whether the operator looks again at the deadline, and what it says."""
    raw: Manifest = inference_deployment(**{"replicas": 3, **spec})
    raw["metadata"]["annotations"] = {DRILL_ANNOTATION: value}
    found = planned(raw)
    deployment = found.desired[Ref(DEPLOYMENT, "default", "qwen-engine")]
    (role,) = found.roles
    return deployment["spec"]["replicas"], role.change.due == SOON, role.notice


@pytest.mark.parametrize(("engines", "expected"), [(0, 0), (1, 1), (9, 3)])
def test_engines_are_fewer_until_the_deadline_and_never_more(engines: int, expected: int) -> None:
    number, looks_again, notice = replicas(Drill(engines, SOON).text)
    assert (number, looks_again) == (expected, True)
    assert f"`infd drill` asks for at most {engines} engine" in notice


def test_autoscaling_does_not_add_them_again_before_the_deadline() -> None:
    assert replicas(Drill(1, SOON).text, autoscaling={"minReplicas": 3, "maxReplicas": 4})[0] == 1


@pytest.mark.parametrize(
    "value", ["", "1", "1 engine until never", Drill(1, NOW).text, Drill(1, NOW + timedelta(hours=2)).text]
)
def test_after_the_deadline_and_in_another_form_it_means_nothing(value: str) -> None:
    assert replicas(value) == (3, False, "")
