"""What the status says of engines that compute prompts for others."""

from dataclasses import replace
from typing import Any

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.status import Status
from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.status.report import report
from inference_operator.views.pod import pod_view
from tests.testing.builders import (
    ENGINES,
    ROUTERS,
    deployment_status,
    inference_deployment,
    inputs,
    model_known,
    pod,
    ready_pod,
)


def given(raw: Manifest, *children: Manifest, **more: Any) -> Inputs:  # noqa: ANN401 - fields of the inputs
    return replace(inputs(raw, children=(model_known(raw, commit="0" * 40), *children)), **more)


def said(spec: Manifest, ready: tuple[int, int], **more: Any) -> Status:  # noqa: ANN401 - fields of the inputs
    """The status with so many ready engines of each role."""
    raw = inference_deployment(**spec)
    first = outcome(given(raw, **more))
    assert isinstance(first, Planned), first
    live = [
        {**manifest, "metadata": {**manifest["metadata"], "uid": str(number), "generation": 1}}
        for number, manifest in enumerate(first.desired.values())
    ]
    counts = {ENGINES.name: ready[0], "qwen-prefill": ready[1], ROUTERS.name: 2}
    for manifest in live:
        if manifest["kind"] == "Deployment":
            count = counts[Ref.of(manifest).name]
            manifest["status"] = deployment_status(manifest["spec"]["replicas"], ready=count)
    second = given(raw, *live, **more)
    return report(second, outcome(second), []).status


def unused(status: Status) -> tuple[str, str] | None:
    found = status.condition(ConditionType.PREFILL_UNUSED)
    return (found.status, found.reason) if found else None


def ready(status: Status) -> tuple[str, str]:
    found = status.condition(ConditionType.READY)
    assert found
    return found.status, found.reason


APART = {"disaggregation": {"prefill": {"replicas": 2}}}


def test_the_condition_says_whether_and_why_no_prompt_goes_to_another_engine() -> None:
    assert unused(said({}, (1, 0))) is None
    assert unused(said(APART, (1, 2))) == ("False", Reason.PREFILL_READY)
    assert unused(said(APART, (1, 0))) == ("True", Reason.NO_PREFILL_ENGINE)
    none = {"disaggregation": {"prefill": {"replicas": 0}}}
    assert unused(said(none, (1, 0))) == ("True", Reason.NO_PREFILL_ENGINE)
    router = pod_view(pod(name="r", component=ROUTER, status=ready_pod()), component=ROUTER)
    assert unused(said(APART, (1, 2), pods=(router,))) == ("True", Reason.PREFILL_WAITS_FOR_KEY)


def test_a_service_is_ready_by_the_engines_that_answer_alone() -> None:
    for counts, expected in (((1, 0), "True"), ((0, 2), "False"), ((1, 2), "True")):
        assert ready(said(APART, counts))[0] == expected, counts
    assert ready(said({**APART, "replicas": 0}, (0, 2))) == ("True", Reason.SCALED_TO_ZERO)


def test_the_status_has_the_numbers_of_each_role() -> None:
    status = said(APART, (1, 2))
    assert [(role.name, role.ready_replicas) for role in status.roles] == [("engine", 1), ("prefill", 2)]
    assert (status.replicas, status.ready) == (1, "3/3")
