import re

import pytest

from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import ConditionType, Reason


def test_every_reason_is_explained() -> None:
    assert set(EXPLANATIONS) == set(Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_is_a_word_as_kubernetes_wants_it(reason: Reason) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z]{0,63}", reason)
    assert reason.name == re.sub(r"(?<!^)(?=[A-Z])", "_", reason).upper()


@pytest.mark.parametrize("reason", list(Reason))
def test_an_explanation_is_made_of_sentences(reason: Reason) -> None:
    explanation = EXPLANATIONS[reason]
    assert isinstance(explanation.condition, ConditionType)
    for text in (explanation.cause, explanation.cure):
        assert text.endswith(".")
        assert text[0] == "`" or text[0].isupper()
        assert "\n" not in text


@pytest.mark.parametrize("condition", list(ConditionType)[:3])
def test_the_conditions_that_kstatus_reads_are_explained(condition: ConditionType) -> None:
    assert any(explanation.condition is condition for explanation in EXPLANATIONS.values())
