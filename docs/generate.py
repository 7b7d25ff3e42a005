"""Generates the reference pages from the code: `python -m docs.generate`."""  # noqa: INP001 - a script

from collections.abc import Iterator
from pathlib import Path

from docs import (
    api_reference,
    arguments_reference,
    chart_values,
    cli_reference,
    dashboards,
    metrics_reference,
    model_table,
)
from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import ConditionType

REFERENCE = Path(__file__).parent / "reference"

INTRODUCTION = """\
# Reasons
Every condition of an InferenceDeployment has a reason. A reason keeps its meaning in all releases. `kubectl get infd`
shows the reason of Ready. `kubectl describe infd NAME` shows all conditions with their messages, which name the object,
field or pod.

This page is generated from `operator/inference_operator/api/explanations.py`.
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
}
"""The question that a condition answers. A reason is listed at the condition where users see it first."""


def reasons() -> str:
    """The page of reasons."""
    return INTRODUCTION + "".join(line for condition in QUESTIONS for line in _section(condition))


def _section(condition: ConditionType) -> Iterator[str]:
    yield f"\n## {condition}: {QUESTIONS[condition]}\n"
    yield "| reason | cause | cure |\n|---|---|---|\n"
    for reason, explanation in EXPLANATIONS.items():
        if explanation.condition is condition:
            yield f"| `{reason}` | {explanation.cause} | {explanation.cure} |\n"


PAGES = {
    "metrics.md": metrics_reference.page,
    "reasons.md": reasons,
    "arguments.md": arguments_reference.page,
    "api.md": api_reference.page,
    "cli.md": cli_reference.page,
    "models.md": model_table.page,
}
"""All generated pages with their functions."""

if __name__ == "__main__":
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
    (chart_values.CHART / "README.md").write_text(chart_values.page(), encoding="utf-8")
    dashboards.write()
