"""Write the reference pages that come from the code: `python docs/generate.py`."""  # noqa: INP001 - a script

from collections.abc import Iterator
from pathlib import Path

from inference_operator.api.reasons import EXPLANATIONS, ConditionType

REFERENCE = Path(__file__).parent / "reference"

INTRODUCTION = """\
# Reasons
Every condition of an InferenceDeployment gives a reason: one word, which keeps its meaning from release to release.
`kubectl get infd` shows the reason of Ready; `kubectl describe infd NAME` shows all conditions with their messages,
which name the object, the field or the pod in question.

This page is generated from `operator/inference_operator/api/reasons.py`.
"""

QUESTIONS = {
    ConditionType.READY: "does a request get an answer?",
    ConditionType.RECONCILING: "is the operator or Kubernetes still at work on what was asked?",
    ConditionType.STALLED: "is something in the way that waiting cannot cure?",
}
"""What a condition answers. A reason is explained at the condition where it is looked for first."""


def reasons() -> str:
    """The page about reasons."""
    return INTRODUCTION + "".join(line for condition in QUESTIONS for line in _section(condition))


def _section(condition: ConditionType) -> Iterator[str]:
    yield f"\n## {condition}: {QUESTIONS[condition]}\n"
    yield "| reason | cause | cure |\n|---|---|---|\n"
    for reason, explanation in EXPLANATIONS.items():
        if explanation.condition is condition:
            yield f"| `{reason}` | {explanation.cause} | {explanation.cure} |\n"


if __name__ == "__main__":
    REFERENCE.mkdir(exist_ok=True)
    (REFERENCE / "reasons.md").write_text(reasons(), encoding="utf-8")
