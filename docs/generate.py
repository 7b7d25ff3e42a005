"""Write the reference pages that come from the code: `python -m docs.generate`."""  # noqa: INP001 - a script

from collections.abc import Iterator, Mapping
from pathlib import Path

from docs import api_reference, cli_reference
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
from inference_operator.telemetry.metrics import DESCRIPTIONS

REFERENCE = Path(__file__).parent / "reference"

INTRODUCTION = """\
# Reasons
Every condition of an InferenceDeployment gives a reason: one word, which keeps its meaning from release to release.
`kubectl get infd` shows the reason of Ready; `kubectl describe infd NAME` shows all conditions with their messages,
which name the object, the field or the pod in question.

This page is generated from `operator/inference_operator/api/explanations.py`.
"""

QUESTIONS = {
    ConditionType.READY: "does a request get an answer?",
    ConditionType.RECONCILING: "is the operator or Kubernetes still at work on what was asked?",
    ConditionType.STALLED: "is something in the way that waiting cannot cure?",
    ConditionType.MODEL_RESOLVED: "are the model's config and size known?",
    ConditionType.SIZED: "does an engine fit on its GPUs, by arithmetic?",
    ConditionType.ENGINES_AVAILABLE: "are as many engines ready as are wanted?",
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


ARGUMENTS = f"""\
# Arguments and variables of the engine
`spec.engine.args` takes the arguments of `vllm serve`, and `spec.engine.env` environment variables. Arguments are read
as vLLM's own parser reads them: `--name=value` or two items of the list, with dashes or underscores, abbreviated as far
as it is clear, `--no-name`, short forms, and keys of a JSON value behind a dot (`--compilation-config.mode=3`). Each of
them is passed on, except for the following.

An argument that vLLM {VERSION} does not have is refused with the nearest ones (`UnknownArgument`) where the engine's
image has that version by its tag. Any other image may have other arguments, so there it is passed on.

This page is generated from `operator/inference_operator/engines/vllm/flags.py`.
"""

LEAVE = """
They load code, read files or open endpoints for people who could not otherwise. Whoever runs the operator allows them
by name, in the chart's values `settings.allowedArguments` and `settings.allowedEnvironment`. An engine's image is code
too: see who may set `spec.engine.image`.
"""


def arguments() -> str:
    """The page about arguments."""
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


METRICS = """\
# Metrics of the operator
`/metrics` of every operator pod, port 8080. A pod that stands by shows the same metrics, mostly at zero: sum over pods,
or take those of the pod whose `infd_leader` is 1. `process_*` and `python_*` of the Prometheus client are there too.

This page is generated from `operator/inference_operator/telemetry/metrics.py`.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def metrics() -> str:
    """The page about metrics."""
    return METRICS + "".join(
        f"| `{one.name}` | {one.type} | {', '.join(f'`{label}`' for label in one.labels) or '-'} | {one.text} |\n"
        for one in sorted(DESCRIPTIONS, key=lambda one: one.name)
    )


PAGES = {
    "metrics.md": metrics,
    "reasons.md": reasons,
    "arguments.md": arguments,
    "api.md": api_reference.page,
    "cli.md": cli_reference.page,
}
"""Every generated page and who writes it."""

if __name__ == "__main__":
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
