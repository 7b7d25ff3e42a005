"""Generates the reference pages from the code: `python -m docs.generate`."""  # noqa: INP001 - a script

from collections.abc import Iterator, Mapping
from pathlib import Path

from docs import api_reference, chart_values, cli_reference, dashboards, metrics_reference, model_table
from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import ConditionType
from inference_operator.engines.vllm.flags import (
    DANGEROUS_FLAGS,
    DANGEROUS_VARIABLES,
    MANAGED_FLAGS,
    MANAGED_VARIABLES,
    REMOVED_FLAGS,
    SECRET_FLAGS,
)
from inference_operator.engines.vllm.options import VERSION

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


ARGUMENTS = f"""\
# Arguments and variables of the engine
`spec.engine.args` are arguments of `vllm serve`; `spec.engine.env` are environment variables. The operator reads
arguments as vLLM's parser does: `--name=value` or two list items, dashes or underscores, unambiguous abbreviations,
`--no-name`, short forms, and keys of a JSON value after a dot (`--compilation-config.mode=3`). All arguments are
passed to the engine, except for the following.

If the tag of the engine's image is vLLM {VERSION}, an argument that this version does not have is rejected with similar
names (`UnknownArgument`). Other images may have other arguments, so they are passed to the engine.

This page is generated from `operator/inference_operator/engines/vllm/flags.py`.
"""

LEAVE = """
They can load code, read files or open endpoints, which gives users rights that they may not have otherwise. An
administrator allows them by name, in the chart's values `settings.allowedArguments` and `settings.allowedEnvironment`.
An engine image is code too: see who may set `spec.engine.image`.
"""


def arguments() -> str:
    """The page of arguments."""
    secrets = {flag: f"Set `{variable}` from a Secret in `spec.engine.env`." for flag, variable in SECRET_FLAGS.items()}
    tables = (
        _table("Arguments that the operator sets itself (`ManagedArgument`)", "instead", MANAGED_FLAGS),
        _table("Variables that the operator sets itself (`ManagedArgument`)", "instead", MANAGED_VARIABLES),
        _table("Secrets (`SecretInSpec`)", "instead", secrets),
        _table("Arguments that must be allowed (`ArgumentNotAllowed`)", "what it does", DANGEROUS_FLAGS, LEAVE),
        _table("Variables that must be allowed (`ArgumentNotAllowed`)", "what it does", DANGEROUS_VARIABLES),
        _table("Arguments of earlier versions (`UnknownArgument`)", "instead", REMOVED_FLAGS),
    )
    return ARGUMENTS + "".join(line for table in tables for line in table)


def _table(title: str, column: str, rows: Mapping[str, str], introduction: str = "") -> Iterator[str]:
    yield f"\n## {title}\n{introduction.lstrip()}"
    yield "\n" if introduction else ""
    yield f"| name | {column} |\n|---|---|\n"
    for name, meaning in rows.items():
        yield f"| `{name}` | {meaning} |\n"


PAGES = {
    "metrics.md": metrics_reference.page,
    "reasons.md": reasons,
    "arguments.md": arguments,
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
