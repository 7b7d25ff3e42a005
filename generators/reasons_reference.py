"""Generates docs/reference/reasons.md: cause and cure of each reason of the status."""

from collections.abc import Iterator

from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import ConditionType

INTRODUCTION = """\
# Reasons
Every condition of an InferenceDeployment has a reason. A reason keeps its meaning in all releases. `kubectl get infd`
shows the reason of the condition that matters most: that of Ready if nothing is wrong. `kubectl describe infd NAME`
shows all conditions with their messages, which name the object, field or pod.

This page is generated from `operator/inference_operator/api/explanations.txt`.
"""

QUESTIONS = {
    ConditionType.READY: "can clients get answers?",
    ConditionType.RECONCILING: "is a change still being applied or rolled out?",
    ConditionType.STALLED: "is there a problem that does not resolve by itself?",
    ConditionType.MODEL_RESOLVED: "are the model's config and checkpoint size known?",
    ConditionType.SIZED: "does an engine fit on its GPUs?",
    ConditionType.ENGINES_AVAILABLE: "are all desired engines ready?",
    ConditionType.ROUTER_AVAILABLE: "can routers take requests?",
    ConditionType.EXPOSED: "can clients outside the cluster reach the model?",
    ConditionType.SCALING_ACTIVE: "does the number of engines follow the requests?",
    ConditionType.ADAPTERS_AVAILABLE: "have all ready engines loaded each adapter?",
    ConditionType.PREFILL_UNUSED: "do engines compute all prompts, although prefill engines are asked for?",
    ConditionType.RENEWED: "has a change of the operator's settings reached the pods?",
    ConditionType.NAMES_ACCEPTED: "does each name of a ModelGateway belong to one model or alias?",
}
"""The question that a condition answers. A reason is listed at the condition where users see it first."""


def page() -> str:
    """The page of all reasons, by condition."""
    return INTRODUCTION + "".join(line for condition in QUESTIONS for line in _section(condition))


def _section(condition: ConditionType) -> Iterator[str]:
    yield f"\n## {condition}: {QUESTIONS[condition]}\n"
    yield "| reason | cause | cure |\n|---|---|---|\n"
    for reason, explanation in EXPLANATIONS.items():
        if explanation.condition is condition:
            yield f"| `{reason}` | {explanation.cause} | {explanation.cure} |\n"
