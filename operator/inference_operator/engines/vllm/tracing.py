"""Where vLLM sends the spans of its requests (OpenTelemetry)."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.vllm.cli_args import given_options, value_of

TRACES = "--otlp-traces-endpoint"
"""URL of a collector (vLLM 0.32.0, vllm/config/observability.py). vLLM continues the trace of a `traceparent`."""


def traces_arguments(args: Sequence[str], default: str) -> Iterator[str]:
    """The argument for the administrator's collector, unless the arguments of the spec name one."""
    if default and value_of(args, TRACES) is None:
        yield f"{TRACES}={default}"


def refusal_of_traces(args: Sequence[str]) -> Refusal | None:
    """The refusal of a collector's address that is no URL, or None: vLLM starts with it, and every span is lost."""
    for given in given_options(args, TRACES):
        if not is_url(given.value or ""):
            problem = f"the value of `{TRACES}` is not the URL of a collector."
            cure = "Write scheme, host and port, such as `http://otel-collector.monitoring:4317`."
            return Refusal(Reason.INVALID_SPEC, f"spec.engine.args[{given.index}]", problem, cure)
    return None


def is_url(text: str) -> bool:
    """Whether a text is an http or https URL with a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port
        return False
