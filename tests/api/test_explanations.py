import re

import pytest

from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import ConditionType, Reason
from tests.testing.for_each import for_each


def test_every_reason_of_a_condition_has_an_explanation() -> None:
    assert set(EXPLANATIONS) == set(Reason)


@for_each(Reason)
def test_every_reason_has_the_form_that_kubernetes_requires(reason: Reason) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z]{0,63}", reason)
    assert reason.name == re.sub(r"(?<!^)(?=[A-Z])", "_", reason).upper()


@for_each(Reason)
def test_cause_and_cure_of_an_explanation_are_complete_sentences(reason: Reason) -> None:
    explanation = EXPLANATIONS[reason]
    assert isinstance(explanation.condition, ConditionType)
    for text in (explanation.cause, explanation.cure):
        assert text.endswith(".")
        assert text[0] == "`" or text[0].isupper()
        assert "\n" not in text


@pytest.mark.parametrize("condition", list(ConditionType)[:3])
def test_the_conditions_that_kstatus_reads_have_an_explanation(condition: ConditionType) -> None:
    assert any(explanation.condition is condition for explanation in EXPLANATIONS.values())
