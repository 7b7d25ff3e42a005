"""The page of all metrics: of the operator, the routers and the engines, with where each is used."""

import re
from collections.abc import Iterator, Mapping, Sequence

import yaml

from generators.dashboards import DASHBOARDS
from generators.engine_rules import RULES
from inference_operator.engines.engine_key_program import TOKENS
from inference_operator.engines.vllm.disaggregation_program import PREFILL
from inference_operator.router.observe import (
    MAX_ADAPTER_SERIES,
    MAX_COMMON_SERIES,
    MAX_ROLE_SERIES,
    MAX_USER_SERIES,
    ROUTER_METRICS_PATH,
)
from inference_operator.router.observe import METRICS as METRICS_OF_ROUTERS
from inference_operator.telemetry.metrics import DESCRIPTIONS
from inference_operator.telemetry.resources import MAX_SERIES

EXPORTED = {
    "haproxy_frontend_http_responses_total": "Answers by class of status; `api` has the router's own too",
    "haproxy_backend_http_requests_total": "Requests; `engines` has none that were refused before",
    "haproxy_backend_queue_time_average_seconds": "Time in the queue, of the last 1,024 requests",
    "haproxy_backend_connect_time_average_seconds": "Time until a connection was accepted, of the last 1,024 requests",
    "haproxy_backend_response_time_average_seconds": "Time until an answer began, of the last 1,024 requests",
    "haproxy_backend_client_aborts_total": "Clients that left before the end of their answer",
    "haproxy_backend_server_aborts_total": "Answers that engines cut",
    "haproxy_backend_retry_warnings_total": "Requests sent again after a failed connection or an engine's death",
    "haproxy_backend_redispatch_warnings_total": "Requests that went to another engine after a failed connection",
    "haproxy_backend_active_servers": "Engines that get requests",
}
"""Some of the exporter's metrics with their meanings (HAProxy 3.0, addons/promex/README)."""

ENGINE = {
    "vllm:num_requests_running": ("", "Requests in the running batch"),
    "vllm:num_requests_waiting": ("", "Requests in the engine's own queue"),
    "vllm:kv_cache_usage_perc": ("", "Share of the KV cache in use, from 0 to 1"),
    "vllm:num_preemptions_total": ("", "Requests that were put back because the KV cache was full"),
    "vllm:prefix_cache_queries_total": ("", "Prompt tokens that were looked up in the prefix cache"),
    "vllm:prefix_cache_hits_total": ("", "Those of them that were found"),
    "vllm:external_prefix_cache_queries_total": ("", "Prompt tokens that were looked up in the host's memory"),
    "vllm:external_prefix_cache_hits_total": ("", "Those of them that were found"),
    "vllm:spec_decode_num_draft_tokens_total": ("", "Tokens that were guessed"),
    "vllm:spec_decode_num_accepted_tokens_total": ("", "Those of them that became part of an answer"),
    "vllm:prompt_tokens_total": ("", "Tokens of prompts"),
    "vllm:prompt_tokens_cached_total": ("", "Those of them that were not computed again"),
    "vllm:generation_tokens_total": ("", "Tokens of answers"),
    "vllm:request_success_total": ("finished_reason", "Answers that have ended"),
    "vllm:admission_rejections_total": ("reason", "Requests that the engine refused with 503; since vLLM 0.32"),
    "vllm:time_to_first_token_seconds": ("", "From the request's arrival to its first token"),
    "vllm:inter_token_latency_seconds": ("", "Between two tokens of an answer"),
    "vllm:e2e_request_latency_seconds": ("", "From the request's arrival to its last token"),
    "vllm:request_queue_time_seconds": ("", "Time in the engine's own queue"),
    "transformers:num_requests_running": ("", "Open requests of Transformers"),
    "llamacpp:requests_processing": ("", "Requests that llama.cpp computes"),
    "llamacpp:requests_deferred": ("", "Requests that wait for a slot of llama.cpp"),
    "sglang:num_running_reqs": ("", "Requests that SGLang computes"),
    "sglang:num_queue_reqs": ("", "Requests in SGLang's own queue"),
    "sglang:token_usage": ("", "Share of SGLang's KV cache in use, from 0 to 1"),
    "sglang:time_to_first_token_seconds": ("", "From the request's arrival at SGLang to its first token"),
    "sglang:inter_token_latency_seconds": ("", "Between two tokens of an answer of SGLang"),
}
"""Metrics of vLLM 0.32 that rules and dashboards use, with their label beside `model_name` and `engine`, those of
our program around Transformers and of llama.cpp, which have no label, and those of SGLang."""

OF_PROGRAMS = {
    f"{TOKENS}_total": (
        "user type",
        "Tokens of each user, `prompt` or `completion`, with `router.keys`: their sum is vLLM's own count",
    ),
    f"{PREFILL}s_total": (
        "place cause",
        "Prompts at a decode engine: `remote` (also if no blocks were read), `local` (cause `full`: no room), `none`",
    ),
    f"{PREFILL}_leg_seconds": ("", "Time until a prefill engine had computed a prompt, as its decode engine saw it"),
    f"{PREFILL}_age_seconds": ("", "From the request to the prefill engine to the first token at the decode engine"),
}
"""Metrics that programs of ours add to an engine's page, with their labels."""

FORMER = {
    "vllm:gpu_cache_usage_perc": ("vllm:kv_cache_usage_perc", "0.11"),
    "vllm:gpu_prefix_cache_queries_total": ("vllm:prefix_cache_queries_total", "0.11"),
    "vllm:gpu_prefix_cache_hits_total": ("vllm:prefix_cache_hits_total", "0.11"),
    "vllm:time_per_output_token_seconds": ("vllm:inter_token_latency_seconds", "0.15"),
}
"""Names in earlier releases of vLLM: today's name, and the last minor release that can show the former one."""

OTHERS = {
    "DCGM_FI_DEV_GPU_UTIL": "Use of a GPU in percent (NVIDIA's DCGM exporter)",
    "vllm:nixl_xfer_time_seconds": "Time of a decode engine to read a prompt's KV cache (vLLM's NIXL connector)",
    "vllm:nixl_bytes_transferred": "Bytes of each such read (vLLM's NIXL connector)",
    "vllm:nixl_num_failed_transfers_total": "Such reads that failed (vLLM's NIXL connector)",
}
"""Those of NIXL are in no page of an engine without `disaggregation`: vLLM 0.32, `kv_connector/v1/nixl/stats.py`."""

OPERATOR_PART = """\
# Metrics
[Monitoring](../how-to/monitoring.md) shows how to scrape them, and has rules, alerts and dashboards. The column *used
by* names the dashboards and alerts that read a metric. `rules` means a recording rule.

This page is generated from `generators/metrics_reference.py`, `operator/inference_operator/telemetry/` and
`operator/inference_operator/router/observe.py`.

## Of the operator
Every operator pod serves `/metrics` on port 8080. A standby pod has no series of InferenceDeployments and nodes, and
its counters stay at zero: use the sum over pods, or the pod whose `infd_leader` is 1. The Prometheus client adds
`process_*` and `python_*`. `/metrics?name[]=infd_leader` has only the metrics of this name; the parameter can be
repeated.

| metric | type | labels | meaning | used by |
|---|---|---|---|---|
"""

CARDINALITY = f"""
Metrics with the labels `resource_namespace` and `name` tell of one InferenceDeployment. They are computed from the
operator's cache at each scrape, and end with their InferenceDeployment. Each has at most {MAX_SERIES} series:
{MAX_SERIES * 1000:,} for a thousand. The others have a fixed number, but for `infd_api_requests_total`: at most one for
each verb, kind and status that occurred, some dozens.
"""

ROUTER_PART = f"""
## Of a router
Both HAProxy processes of a router pod serve metrics, on ports 9100 and 9101 (`metrics-1`, `metrics-2`). Each counts for
itself, since its start: add up all processes of all router pods. [Read a router](../how-to/read-a-router.md) shows
queries.

`{ROUTER_METRICS_PATH}` has what HAProxy's exporter does not have:

| metric | type | labels | meaning | used by |
|---|---|---|---|---|
"""

ROUTER_CARDINALITY = f"""
One process has at most {MAX_COMMON_SERIES} series, {MAX_ROLE_SERIES} for each role of engines (`role`), one more for
each engine (`engine`), {MAX_ADAPTER_SERIES} for each adapter (`adapter`), and at most {MAX_USER_SERIES} more for each
user of an API key (`user`): with 100 users and 8 engines about 1,000. A process of a gateway has at most four more for
each name that it answers to and each target of the name, and one for fallbacks; names beyond the 256th share theirs.
"""

EXPORTER_PART = """
`/metrics` is HAProxy's exporter. These of its metrics are used. The proxy `engines` is the requests that routers
forward; those that wait while no engine is up are among its sessions. `/metrics?scope=frontend&scope=backend` leaves
out the metrics of each server, so that the number of series does not grow with the engines.

| metric | labels | meaning | used by |
|---|---|---|---|
"""

ENGINE_PART = """
## Of an engine
Engines serve `/metrics` on the port of their API. These of their metrics are used. Those of vLLM have the labels
`model_name` and `engine`, and those below. An engine of vLLM 0.32 has about 430 series, most of them buckets.

| metric | labels | meaning | used by |
|---|---|---|---|
"""

FORMER_PART = """
Earlier releases of vLLM call some of them otherwise. The recording rules read both names:

| metric | today | in vLLM up to |
|---|---|---|
"""

OTHERS_PART = """
## Of others
| metric | meaning | used by |
|---|---|---|
"""

RECORDED_PART = """
## Recorded
Recording rules compute these; `files/rules.yaml` of the chart has them. Those of the group `inference-engine-figures`
have the same names for all engines. Where the engines of a resource do not show a figure, the routers' stands for it:
their running and queued requests, and the time to the first byte of an answer.

| metric | used by |
|---|---|
"""

END = """
`vllm:time_to_first_token_seconds` counts from the arrival at an engine. What clients wait for a stream to begin is
`inference_operator_router_time_to_first_byte_seconds`: it has the wait in the router too.
"""

NAME = re.compile(
    r"\b(?:infd_|infd:|haproxy_|inference_operator_(?:router|engine)_|vllm:|transformers:|llamacpp:|sglang:|DCGM_)[A-Za-z0-9_:]+"
)


def metrics_in(query: str) -> set[str]:
    """The metrics that a query reads; a histogram by its own name.

    Examples:
        >>> sorted(metrics_in("rate(vllm:time_to_first_token_seconds_bucket[5m]) + infd_leader"))
        ['infd_leader', 'vllm:time_to_first_token_seconds']
    """
    return {
        name if name.startswith("infd:") else re.sub(r"_(bucket|count|sum)$", "", name) for name in NAME.findall(query)
    }


def rules() -> Iterator[Mapping[str, str]]:
    """All recording rules and alerts."""
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        yield from group["rules"]


def recorded() -> Mapping[str, str]:
    """The queries of the recording rules, by what they record."""
    return {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def uses() -> Mapping[str, Sequence[str]]:
    """The dashboards, alerts and rules that read each metric."""
    found: dict[str, list[str]] = {}
    readers = [(name, q) for name, d in DASHBOARDS.items() for panel in d.panels for q in panel.queries.values()]
    readers += [(rule.get("alert", "rules"), rule["expr"]) for rule in rules()]
    for reader, query in readers:
        for metric in metrics_in(query):
            if reader not in found.setdefault(metric, []):
                found[metric].append(reader)
    return found


def page() -> str:
    """The page of metrics."""
    used = {metric: ", ".join(readers) for metric, readers in uses().items()}

    def row(name: str, *cells: str) -> str:
        return f"| `{name}` | {' | '.join((*cells, used.get(name, '')))} |\n"

    operators = [row(one.name, one.type, _labels(one.labels), one.text) for one in DESCRIPTIONS]
    routers = [row(one.name, one.kind, _labels(one.labels), one.meaning) for one in METRICS_OF_ROUTERS]
    engines = [row(name, _labels(label.split()), text) for name, (label, text) in (ENGINE | OF_PROGRAMS).items()]
    parts = [
        [OPERATOR_PART, *sorted(operators), CARDINALITY],
        [ROUTER_PART, *sorted(routers), ROUTER_CARDINALITY],
        [EXPORTER_PART, *(row(name, _labels(_exported(name)), meaning) for name, meaning in EXPORTED.items())],
        [ENGINE_PART, *engines],
        [FORMER_PART, *(f"| `{name}` | `{today}` | {last} |\n" for name, (today, last) in FORMER.items())],
        [OTHERS_PART, *(row(name, meaning) for name, meaning in OTHERS.items())],
        [RECORDED_PART, *(row(name) for name in recorded()), END],
    ]
    return "".join(line for part in parts for line in part)


def _exported(name: str) -> list[str]:
    return ["proxy", *(["code"] if "responses" in name else [])]


def _labels(labels: Sequence[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels) or "-"
