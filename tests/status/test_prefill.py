"""What the status says of engines that compute prompts for others."""

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.status import Status
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.report import report
from tests.status.prefill_states import APART, ROUTER_WITHOUT_KEY, apart


def said(found: Inputs) -> Status:
    return report(found, outcome(found), []).status


def told(found: Inputs, kind: ConditionType) -> tuple[str, str] | None:
    condition = said(found).condition(kind)
    return (condition.status, condition.reason) if condition else None


def test_the_condition_says_whether_and_why_no_prompt_goes_to_another_engine() -> None:
    none = {"disaggregation": {"prefill": {"replicas": 0}}}
    for found, expected in (
        (apart({}, (1, 0)), None),
        (apart(APART, (1, 2)), ("False", Reason.PREFILL_READY)),
        (apart(APART, (1, 0)), ("True", Reason.NO_PREFILL_ENGINE)),
        (apart(none, (1, 0)), ("True", Reason.NO_PREFILL_ENGINE)),
        (apart(APART, (1, 2), pods=(ROUTER_WITHOUT_KEY,)), ("True", Reason.PREFILL_WAITS_FOR_KEY)),
        (apart(APART, (1, 2), commit=""), ("True", Reason.REVISIONS_DIFFER)),
    ):
        assert told(found, ConditionType.PREFILL_UNUSED) == expected, expected


def test_a_service_is_ready_by_the_engines_that_answer_alone() -> None:
    for counts, expected in (((1, 0), "True"), ((0, 2), "False"), ((1, 2), "True")):
        ready = told(apart(APART, counts), ConditionType.READY)
        assert ready
        assert ready[0] == expected, counts
        available = told(apart(APART, counts), ConditionType.ENGINES_AVAILABLE)
        assert available
        assert available[0] == expected, counts
    assert told(apart({**APART, "replicas": 0}, (0, 2)), ConditionType.READY) == ("True", Reason.SCALED_TO_ZERO)


def test_the_status_has_the_numbers_of_each_role() -> None:
    status = said(apart(APART, (1, 2)))
    assert [(role.name, role.ready_replicas) for role in status.roles] == [("engine", 1), ("prefill", 2)]
    assert (status.replicas, status.ready) == (1, "1/1")
