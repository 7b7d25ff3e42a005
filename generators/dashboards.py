"""The dashboards, as tables of panels with their queries."""

import re
from dataclasses import replace
from pathlib import Path

from generators.grafana import CLUSTER, NUMBERS, STATES, TABLE, Dashboard, Panel, Queries, Steps

FOLDER = Path(__file__).parents[1] / "charts" / "inference-operator" / "files" / "dashboards"

OF = 'resource_namespace="$resource_namespace",name="$name"'
ONE = f"{{{OF}}}"
SERIES = re.compile(r"\b((?:infd|inference_operator|haproxy|vllm|sglang|llamacpp|transformers|DCGM)[_:][\w:]*)(\{)?")
IN_CLUSTER = f'{CLUSTER}=~"${CLUSTER}|"'
ANSWERS = f'{{proxy="api",code=~"2xx|4xx|5xx",{OF}}}'
"""A router sends no answers of other classes."""
R = "[$__rate_interval]"

BUDGET: Steps = ((None, "red"), (0, "orange"), (0.25, "green"))
"""Of the share that is left."""
DAYS: Steps = ((None, "red"), (7, "green"))
"""Until a certificate ends; red where the alert InferenceCertificateEnds fires with the default notice."""
BY = "by (cluster, resource_namespace, name)"
RESOURCE = "{{resource_namespace}}/{{name}} {{cluster}}"
NONE = "None recorded"
"""For panels about faults: their series begin with the first fault."""
NO_AUTOSCALING = "spec.autoscaling is not set, or another autoscaler decides"


def _changes(*labels: str) -> Queries:
    """Annotations: rollouts, and changes of the number of engines, of what has these labels."""
    rollout = ",".join(('type="Reconciling"', 'reason="RollingOut"', *labels))
    desired = ",".join(('state="desired"', *labels))
    return {
        "Rollout": f"max {BY} (infd_condition{{{rollout}}})",
        "Another number of engines": f"max {BY} (changes(infd_replicas{{{desired}}}[2m])) > 0",
    }


def _quantiles(histogram: str, labels: str, *quantiles: float) -> Queries:
    buckets = f"sum by (le) (rate({histogram}_bucket{{{labels}}}{R}))"
    return {f"p{int(100 * q)}": f"histogram_quantile({q}, {buckets})" for q in quantiles}


SERVICE = Dashboard(
    "inference-service",
    "Inference / Service",
    ("resource_namespace", "name"),
    [
        Panel(
            "Requests",
            "Answers per second by class of status. 401 (no valid key) and 429 (busy, or a limit) are in 4xx",
            "reqps",
            {
                "{{code}}": f"sum by (code) (rate(haproxy_frontend_http_responses_total{ANSWERS}{R}))",
                "401, in 4xx": f"sum(rate(inference_operator_router_unauthorized_requests_total{ONE}{R}))",
                "429, in 4xx": f"sum(rate(inference_operator_router_refused_requests_total{ONE}{R}))",
            },
        ),
        Panel(
            "Requests that miss an objective",
            "Shares of an hour's requests: answers with status 5xx, and late first tokens",
            "percentunit",
            {"5xx": f"infd:errors:ratio_rate1h{ONE}", "late first token": f"infd:late_first_tokens:ratio_rate1h{ONE}"},
        ),
        Panel(
            "Time to the first token",
            "Of five minutes. Clients: of streams, with the wait in the router. Engines: from the arrival at an engine",
            "s",
            {
                **{
                    f"clients p{int(100 * q)}": f"histogram_quantile({q}, sum by (le) "
                    f"(rate(inference_operator_router_time_to_first_byte_seconds_bucket{ONE}[5m])))"
                    for q in (0.5, 0.95)
                },
                **{
                    f"engines p{int(100 * q)}": f"histogram_quantile({q}, infd:first_token_seconds_bucket:rate5m{ONE})"
                    for q in (0.5, 0.95, 0.99)
                },
                "engines mean": f"infd:first_token_seconds:mean5m{ONE}",
            },
        ),
        Panel(
            "Requests under way",
            "Running at engines, and waiting: in engines, for a slot, or for the first engine",
            "short",
            {
                "running": f"infd:engine_running_requests:sum{ONE}",
                "waiting in engines": f"infd:engine_waiting_requests:sum{ONE}",
                "queued": f"sum(inference_operator_router_queued_requests{ONE})",
                "held": f"sum(inference_operator_router_held_requests{ONE})",
                "all that wait": f"infd:waiting_requests:sum{ONE}",
            },
            whole=True,
        ),
        Panel(
            "Time between tokens",
            "Inter-token latency of the last five minutes",
            "s",
            {
                f"p{int(100 * q)}": f"histogram_quantile({q}, infd:inter_token_latency_seconds_bucket:rate5m{ONE})"
                for q in (0.5, 0.95)
            },
        ),
        Panel(
            "Tokens per second",
            "Prompts, cached tokens among them, and answers",
            "short",
            {
                "prompt": f"sum(rate(vllm:prompt_tokens_total{ONE}{R}))",
                "cached": f"sum(rate(vllm:prompt_tokens_cached_total{ONE}{R}))",
                "generated": f"sum(rate(vllm:generation_tokens_total{ONE}{R}))",
            },
        ),
        Panel(
            "Engines",
            "Engines by state, and the most that autoscaling may want",
            "short",
            {
                "{{state}}": f"max by (state) (infd_replicas{ONE})",
                "maxReplicas": f"max(infd_max_replicas{ONE})",
            },
            whole=True,
        ),
        Panel(
            "Conditions",
            "Status and reason of each condition",
            "short",
            {"{{type}}={{status}}: {{reason}}": f"max by (type, status, reason) (infd_condition{ONE})"},
            kind=STATES,
        ),
        Panel(
            "Restarts",
            "In an hour: engines in place by cause, and containers of routers",
            "short",
            {
                "engine: {{cause}}": f"sum by (cause) (increase(infd_engine_restarts_total{ONE}[1h])) > 0",
                "router": f"sum(increase(infd_router_restarts_total{ONE}[1h]))",
            },
            nothing=NONE,
        ),
        Panel(
            "Demand that autoscaling sees",
            "Requests for which engines are wanted, and what the ready engines should have in all",
            "short",
            {
                "{{part}}": f"max by (part) (infd_scaling_demand_requests{ONE})",
                "ready engines x target": f'max(infd_replicas{{state="ready",{OF}}})'
                f" * max(infd_scaling_target_concurrency{ONE})",
            },
            nothing=NO_AUTOSCALING,
        ),
        Panel(
            "What sets the number of engines",
            "As autoscaling decided it last",
            "short",
            {"{{bound}}": f"max by (bound) (infd_scaling_bound{ONE})"},
            kind=STATES,
            nothing=NO_AUTOSCALING,
        ),
        Panel(
            "Error budget left",
            "Share of the budget for answers with status 5xx that is left, of 30 days or of all that Prometheus keeps",
            "percentunit",
            {
                "left": "1 - (sum(increase(haproxy_frontend_http_responses_total"
                f'{{proxy="api",code="5xx",{OF}}}[30d])) / (sum(increase(haproxy_frontend_http_responses_total'
                f'{{proxy="api",{OF}}}[30d])) > 0)) / (1 - scalar(max(infd:availability_objective:ratio)))'
            },
            nothing="No request yet",
            kind=NUMBERS,
            steps=BUDGET,
            maximum=1,
        ),
        Panel(
            "Time of requests",
            "Whole requests, and their average time in the engine's own queue",
            "s",
            {
                "whole p50": _quantiles("vllm:e2e_request_latency_seconds", OF, 0.5)["p50"],
                "whole p95": _quantiles("vllm:e2e_request_latency_seconds", OF, 0.95)["p95"],
                "queued average": f"sum(rate(vllm:request_queue_time_seconds_sum{ONE}{R}))"
                f" / sum(rate(vllm:request_queue_time_seconds_count{ONE}{R}))",
            },
        ),
        Panel(
            "Ends of answers",
            "Answers per second by the reason of their end",
            "reqps",
            {"{{finished_reason}}": f"sum by (finished_reason) (rate(vllm:request_success_total{ONE}{R}))"},
        ),
        Panel(
            "Refused requests",
            "Requests per second that got 429 by routers, and those that engines refused",
            "reqps",
            {
                "router: {{reason}}": "sum by (reason) "
                f"(rate(inference_operator_router_refused_requests_total{ONE}{R}))",
                "engine: {{reason}}": f"sum by (reason) (rate(vllm:admission_rejections_total{ONE}{R}))",
            },
            nothing=NONE,
        ),
        Panel(
            "KV cache in use",
            "Of each engine",
            "percentunit",
            {"{{pod}}": f"infd:kv_cache_usage:ratio{ONE}"},
            maximum=1,
        ),
        Panel(
            "Preemptions",
            "Requests per second that engines put back because their KV cache was full",
            "reqps",
            {"preempted": f"sum(rate(vllm:num_preemptions_total{ONE}{R}))"},
        ),
        Panel(
            "Prefix cache hits",
            "Share of prompt tokens that were in an engine's prefix cache",
            "percentunit",
            {"hits": f"infd:prefix_cache_hits:rate5m{ONE} / infd:prefix_cache_queries:rate5m{ONE}"},
            maximum=1,
        ),
        Panel(
            "Hits in the host's memory",
            "Share of prompt tokens beyond the prefix cache that `engine.kvOffload` had",
            "percentunit",
            {
                "hits": f"sum(rate(vllm:external_prefix_cache_hits_total{ONE}{R}))"
                f" / sum(rate(vllm:external_prefix_cache_queries_total{ONE}{R}))"
            },
            maximum=1,
            nothing="Off",
        ),
        Panel(
            "Guessed tokens that are accepted",
            "Share of the tokens that `engine.speculative` guessed",
            "percentunit",
            {
                "accepted": f"sum(rate(vllm:spec_decode_num_accepted_tokens_total{ONE}{R}))"
                f" / sum(rate(vllm:spec_decode_num_draft_tokens_total{ONE}{R}))"
            },
            maximum=1,
            nothing="Off",
        ),
        Panel(
            "Start of the last engine",
            "Seconds of each phase of the engine that became ready last",
            "s",
            {"{{phase}}": f"max by (phase) (infd_engine_start_seconds{ONE})"},
            kind=NUMBERS,
            nothing="No engine has started since the operator did",
        ),
        Panel(
            "Start under way",
            "The step of the engine that is furthest in its start",
            "short",
            {"{{step}}": f"max by (step) (infd_startup_step{ONE})"},
            kind=STATES,
            nothing="No engine starts",
        ),
        Panel(
            "Cost per hour",
            "Of the allocated GPUs, in the currency of settings.gpuOffers",
            "short",
            {"currency per hour": f"sum(infd_cost_per_hour{ONE})"},
            nothing="No prices in settings.gpuOffers",
        ),
        Panel(
            "Cost per million tokens",
            "In the currency of settings.gpuOffers, by the tokens of the last hour; too high in the first hour",
            "short",
            {
                "currency per million tokens": f"sum(infd_cost_per_hour{ONE})"
                f" / ((sum(increase(vllm:prompt_tokens_total{ONE}[1h]))"
                f" + sum(increase(vllm:generation_tokens_total{ONE}[1h]))) > 0) * 1e6"
            },
            nothing="No prices in settings.gpuOffers, or no tokens in the last hour",
        ),
    ],
    _changes(OF),
)

NO_GATEWAY = "No ModelGateway has answered a request"
_OF_GATEWAYS = "by (cluster, resource_namespace, name, model, target)"
_ANSWERS = "inference_operator_router_model_requests_total"
_TO_MODELS = '{proxy=~"engines|fallible"}'
GATEWAYS = (
    Panel(
        "Gateways: requests",
        "Answers per second by the name that was asked for, a model's or an alias, and the InferenceDeployment",
        "reqps",
        {f"{RESOURCE} {{{{model}}}} at {{{{target}}}}": f"sum {_OF_GATEWAYS} (rate({_ANSWERS}{R}))"},
        nothing=NO_GATEWAY,
    ),
    Panel(
        "Gateways: refused requests and errors",
        "Answers per second with status 4xx and 5xx",
        "reqps",
        {
            f"{RESOURCE} {{{{model}}}} at {{{{target}}}} {{{{code}}}}": "sum by (cluster, resource_namespace, name,"
            f' model, target, code) (rate({_ANSWERS}{{code=~"4xx|5xx"}}{R}))'
        },
        nothing=NO_GATEWAY,
    ),
    Panel(
        "Gateways: fallbacks",
        "Requests per second that another target of an alias got, by the one that could not take them",
        "reqps",
        {
            f"{RESOURCE} {{{{model}}}} not at {{{{target}}}}": f"sum {_OF_GATEWAYS}"
            f" (rate(inference_operator_router_fallbacks_total{R}))"
        },
        nothing=NONE,
    ),
    Panel(
        "Gateways: waits",
        "Mean of the last 1,024 requests: until a model's router has accepted a connection, and until its answer began",
        "s",
        {
            f"{RESOURCE} {legend}": f"max {BY} (haproxy_backend_{name}_time_average_seconds{_TO_MODELS}"
            f" and on (cluster, resource_namespace, name) rate({_ANSWERS}{R}))"
            for legend, name in (("connection", "connect"), ("answer", "response"))
        },
        nothing=NO_GATEWAY,
    ),
)

FLEET = Dashboard(
    "inference-fleet",
    "Inference / Fleet",
    (),
    [
        Panel(
            "Models",
            "Each service now, with a link to its page. First token: p95 of clients' streams. Errors: 5xx of an hour",
            "short",
            {
                "Engines": f'sum {BY} (infd_replicas{{state="ready"}})',
                "GPUs": f'sum {BY} (infd_gpus{{state="allocated"}})',
                "Requests/s": f'sum {BY} (rate(haproxy_frontend_http_responses_total{{proxy="api"}}[5m]))',
                "Errors": f"max {BY} (infd:errors:ratio_rate1h)",
                "First token": "histogram_quantile(0.95, sum by (cluster, resource_namespace, name, le)"
                " (rate(inference_operator_router_time_to_first_byte_seconds_bucket[5m])))",
                "Tokens/s": f"sum {BY} (rate(vllm:prompt_tokens_total[5m]) + rate(vllm:generation_tokens_total[5m]))",
                "Waiting": f"max {BY} (infd:waiting_requests:sum)",
                "Per million tokens": f"sum {BY} (infd_cost_per_hour) / (sum {BY}"
                " (increase(vllm:prompt_tokens_total[1h]) + increase(vllm:generation_tokens_total[1h])) > 0) * 1e6",
            },
            kind=TABLE,
            units={"Requests/s": "reqps", "Errors": "percentunit", "First token": "s", "Tokens/s": "cps"},
        ),
        Panel(
            "Resources",
            "InferenceDeployments by state",
            "short",
            {"{{state}}": "sum by (state) (infd_resources)"},
            whole=True,
        ),
        Panel(
            "Problems",
            "InferenceDeployments that do not resolve by themselves, by reason",
            "short",
            {"{{reason}}": 'count by (reason) (infd_condition{type="Stalled",status="True"})'},
            whole=True,
            nothing=NONE,
        ),
        Panel(
            "GPUs",
            "By kind: those that engines request, on nodes and without a node, and all of nodes, used or not",
            "short",
            {
                "{{gpu}} {{state}}": "sum by (gpu, state) (infd_gpus)",
                "{{gpu}} of nodes": "max by (gpu) (infd_node_gpus)",
            },
            whole=True,
        ),
        Panel(
            "GPUs without requests",
            "GPUs of InferenceDeployments that had no request for an hour",
            "short",
            {
                RESOURCE: 'sum by (cluster, resource_namespace, name) (infd_gpus{state="allocated"}) > 0'
                " and on (cluster, resource_namespace, name) infd:requests:increase1h == 0"
            },
            whole=True,
            nothing=NONE,
        ),
        Panel(
            "Use of GPUs",
            "As NVIDIA's DCGM exporter measures it, where it runs",
            "percent",
            {"{{modelName}}": "avg by (modelName) (DCGM_FI_DEV_GPU_UTIL)"},
            maximum=100,
            nothing="No series of NVIDIA's DCGM exporter",
        ),
        Panel(
            "Engines without a node",
            "Engines that wait for a node",
            "short",
            {RESOURCE: 'max by (cluster, resource_namespace, name) (infd_replicas{state="unscheduled"}) > 0'},
            whole=True,
            nothing=NONE,
        ),
        Panel(
            "Cost per hour",
            "Of the allocated GPUs, in the currency of settings.gpuOffers",
            "short",
            {"{{resource_namespace}}": "sum by (resource_namespace) (infd_cost_per_hour)"},
            nothing="No prices in settings.gpuOffers",
        ),
        Panel(
            "Cost per million tokens",
            "In the currency of settings.gpuOffers, by the tokens of the last hour; too high in the first hour",
            "short",
            {
                RESOURCE: "sum by (cluster, resource_namespace, name) (infd_cost_per_hour)"
                " / (sum by (cluster, resource_namespace, name) "
                "(increase(vllm:prompt_tokens_total[1h]) + increase(vllm:generation_tokens_total[1h])) > 0) * 1e6"
            },
            nothing="No prices in settings.gpuOffers, or no tokens in the last hour",
        ),
        Panel(
            "Tokens per second",
            "Prompts and answers together",
            "short",
            {
                RESOURCE: "sum by (cluster, resource_namespace, name) "
                f"(rate(vllm:prompt_tokens_total{R}) + rate(vllm:generation_tokens_total{R}))"
            },
        ),
        Panel(
            "Requests that wait",
            "In engines, for a slot, or for the first engine",
            "short",
            {RESOURCE: "infd:waiting_requests:sum > 0"},
            whole=True,
            nothing=NONE,
        ),
        Panel(
            "Engines without progress",
            "Engines in an hour that got no new requests because they made no progress, and that were replaced",
            "short",
            {
                "no progress": "sum(increase(infd_engine_no_progress_total[1h]))",
                "replaced": "sum(increase(infd_engine_stalls_total[1h]))",
            },
            nothing=NONE,
        ),
        Panel(
            "Router restarts",
            "Restarts of routers' containers in an hour",
            "short",
            {RESOURCE: "sum by (cluster, resource_namespace, name) (increase(infd_router_restarts_total[1h])) > 0"},
            nothing=NONE,
        ),
        Panel(
            "Engine restarts",
            "Restarts of engines in place in an hour, by cause",
            "short",
            {"{{cause}}": "sum by (cause) (increase(infd_engine_restarts_total[1h]))"},
            nothing=NONE,
        ),
        *GATEWAYS,
    ],
    _changes(),
)

ROUTER = Dashboard(
    "inference-router",
    "Inference / Router",
    ("resource_namespace", "name"),
    [
        Panel(
            "Requests",
            "Requests per second that routers forward, and answers by class of status",
            "reqps",
            {
                "forwarded": f'sum(rate(haproxy_backend_http_requests_total{{proxy="engines",{OF}}}{R}))',
                "{{code}}": f"sum by (code) (rate(haproxy_frontend_http_responses_total{ANSWERS}{R}))",
            },
        ),
        Panel(
            "Routers",
            "Pods of routers, and restarts of their containers in an hour",
            "short",
            {
                "{{state}}": f"max by (state) (infd_router_pods{ONE})",
                "restarts": f"sum(increase(infd_router_restarts_total{ONE}[1h]))",
            },
            whole=True,
        ),
        Panel(
            "Requests at routers",
            "Requests that run, are queued or are held",
            "short",
            {
                "running": f"sum(inference_operator_router_running_requests{ONE}) or vector(0)",
                "queued": f"sum(inference_operator_router_queued_requests{ONE})",
                "held": f"sum(inference_operator_router_held_requests{ONE})",
            },
            whole=True,
        ),
        Panel(
            "Requests at each engine",
            "By the engine's address",
            "short",
            {"{{engine}}": f"sum by (engine) (inference_operator_router_running_requests{ONE})"},
            whole=True,
        ),
        Panel(
            "Engines that get requests",
            "The smallest and the largest number that a router process knows",
            "short",
            {
                "smallest": f'min(haproxy_backend_active_servers{{proxy="engines",{OF}}})',
                "largest": f'max(haproxy_backend_active_servers{{proxy="engines",{OF}}})',
            },
            whole=True,
        ),
        Panel(
            "Times",
            "To the first byte of a stream, with the wait in the router, and the mean of 1,024 requests in the queue",
            "s",
            {
                "queue": f'max(haproxy_backend_queue_time_average_seconds{{proxy="engines",{OF}}})',
                **{
                    f"{{{{role}}}} p{int(100 * q)}": f"histogram_quantile({q}, sum by (role, le) ("
                    f"rate(inference_operator_router_time_to_first_byte_seconds_bucket{ONE}{R})))"
                    for q in (0.5, 0.95, 0.99)
                },
            },
        ),
        Panel(
            "Faults",
            "Per second: clients that left, answers that engines cut, requests sent again and elsewhere, and lost ones",
            "reqps",
            {
                legend: f'sum(rate(haproxy_backend_{name}_total{{proxy="engines",{OF}}}{R}))'
                for legend, name in (
                    ("clients left", "client_aborts"),
                    ("cut by engines", "server_aborts"),
                    ("tried again", "retry_warnings"),
                    ("sent elsewhere", "redispatch_warnings"),
                )
            }
            | {"lost": f"sum(rate(inference_operator_router_lost_requests_total{ONE}{R}))"},
        ),
        Panel(
            "Refused requests",
            "Requests per second that got 429, by reason, and those that got 401 because they had no valid API key",
            "reqps",
            {
                "429: {{reason}}": f"sum by (reason) (rate(inference_operator_router_refused_requests_total{ONE}{R}))",
                "401": f"sum(rate(inference_operator_router_unauthorized_requests_total{ONE}{R}))",
            },
            nothing=NONE,
        ),
        Panel(
            "Requests of users",
            "Answers per second to requests with an API key",
            "reqps",
            {"{{user}} {{code}}": f"sum by (user, code) (rate(inference_operator_router_requests_total{ONE}{R}))"},
            nothing="router.keys is not set",
        ),
        Panel(
            "Requests of adapters",
            "Answers per second to requests that name an adapter of model.adapters",
            "reqps",
            {
                "{{adapter}} {{code}}": "sum by (adapter, code) "
                f"(rate(inference_operator_router_adapter_requests_total{ONE}{R}))"
            },
            nothing="model.adapters is not set",
        ),
        Panel(
            "Requests over a limit",
            "Requests per second that got 429 because their user has reached a limit of router.keys",
            "reqps",
            {
                "{{user}} {{reason}}": "sum by (user, reason) "
                f"(rate(inference_operator_router_limited_requests_total{ONE}{R}))"
            },
            nothing=NONE,
        ),
        Panel(
            "Tokens of users per second",
            "As engines of vLLM count them with router.keys; else as answers report them, with router.usage",
            "short",
            {
                "{{user}} {{type}}": f"sum by (user, type) (rate(inference_operator_engine_tokens_total{ONE}{R}))"
                f" or sum by (user, type) (rate(inference_operator_router_tokens_total{ONE}{R}))"
            },
            nothing="router.keys is not set, and router.usage is not Enabled",
        ),
        Panel(
            "Prompts by where they were computed",
            "At decode engines, with disaggregation: at a prefill engine, or here and why",
            "reqps",
            {"{{place}} {{cause}}": f"sum by (place, cause) (rate(inference_operator_engine_prefills_total{ONE}{R}))"},
            nothing="spec.disaggregation is not set",
        ),
        Panel(
            "Time at prefill engines, and until the first token",
            "95 % of the prompts that a prefill engine computed",
            "s",
            {
                name: "histogram_quantile(0.95, sum by (le) "
                f"(rate(inference_operator_engine_prefill_{part}_seconds_bucket{ONE}{R})))"
                for name, part in (("first step", "leg"), ("first token", "age"))
            }
            | {"KV cache": f"histogram_quantile(0.95, sum by (le) (rate(vllm:nixl_xfer_time_seconds_bucket{ONE}{R})))"},
            nothing="spec.disaggregation is not set",
        ),
        Panel(
            "KV caches from prefill engines",
            "Bytes per second that decode engines read",
            "Bps",
            {"read": f"sum(rate(vllm:nixl_bytes_transferred_sum{ONE}{R}))"},
            nothing="spec.disaggregation is not set",
        ),
        Panel(
            "Answers whose tokens are not counted",
            "Answers per second without them, with router.usage",
            "reqps",
            {"{{user}}": f"sum by (user) (rate(inference_operator_router_answers_without_usage_total{ONE}{R}))"},
            nothing=NONE,
        ),
        Panel(
            "API keys",
            "Users that have a key, and lines of the keys file that could not be read",
            "short",
            {
                "users": f"max(inference_operator_router_key_users{ONE})",
                "skipped lines": f"max(inference_operator_router_key_lines_skipped{ONE})",
            },
            kind=NUMBERS,
            nothing="router.keys is not set",
        ),
        Panel(
            "Certificate",
            "Days until the certificate of router.tls, or one of its chain, ends",
            "d",
            {"left": f"(min(inference_operator_router_certificate_expiry_timestamp_seconds{ONE}) - time()) / 86400"},
            kind=NUMBERS,
            steps=DAYS,
            nothing="router.tls is not set",
        ),
        Panel(
            "Requests without an affinity key",
            "Requests per second that PrefixAffinity could not place by their prompt",
            "reqps",
            {"without": f"sum(rate(inference_operator_router_requests_without_key_total{ONE}{R}))"},
            nothing=NONE,
        ),
    ],
    _changes(OF),
)

OPERATOR = Dashboard(
    "inference-operator",
    "Inference / Operator",
    (),
    [
        Panel(
            "Leader",
            "Operator pods: leaders, and all by version",
            "short",
            {"leaders": "sum(infd_leader)", "{{version}}": "count by (version) (infd_build_info)"},
            kind=NUMBERS,
        ),
        Panel(
            "Reconciles",
            "Per second, by result, and those that are tried again",
            "ops",
            {
                "{{result}}": f"sum by (result) (rate(infd_reconcile_total{R}))",
                "tried again": f"sum(rate(infd_workqueue_retries_total{R}))",
            },
        ),
        Panel(
            "Errors",
            "Reconciles per second that ended with an exception",
            "ops",
            {"{{reason}}": f"sum by (reason) (rate(infd_reconcile_errors_total{R}))"},
            nothing=NONE,
        ),
        Panel(
            "Times",
            "p95: reconciles, waits in the work queue, and the time from an event to its first write",
            "s",
            {
                legend: f"histogram_quantile(0.95, sum by (le) (rate({name}_bucket{R})))"
                for legend, name in (
                    ("reconcile", "infd_reconcile_duration_seconds"),
                    ("wait", "infd_workqueue_wait_seconds"),
                    ("event to write", "infd_event_to_apply_seconds"),
                )
            },
        ),
        Panel(
            "Work queue",
            "Resources that wait for a reconcile",
            "short",
            {"depth": "sum(infd_workqueue_depth)"},
            whole=True,
        ),
        Panel(
            "Longest reconcile",
            "How long the oldest running reconcile has run",
            "s",
            {"longest": "max(infd_workqueue_longest_running_seconds)"},
        ),
        Panel(
            "Requests to the API server",
            "Per second",
            "reqps",
            {"{{verb}} {{kind}} {{code}}": f"sum by (verb, kind, code) (rate(infd_api_requests_total{R})) > 0"},
        ),
        Panel(
            "Watches",
            "Watches that were started, per second",
            "ops",
            {"{{resource}}": f"sum by (resource) (rate(infd_watch_requests_total{R}))"},
        ),
        Panel("Age of the cache", "Time since the last complete listing", "s", {"age": "min(infd_cache_age_seconds)"}),
        Panel(
            "Unreadable namespaces",
            "Namespaces that could not be listed",
            "short",
            {"namespaces": "sum(infd_namespaces_unreadable)"},
            kind=NUMBERS,
            steps=((None, "green"), (1, "red")),
        ),
        Panel(
            "Namespaces left to others",
            "Namespaces in which another, older operator acts",
            "short",
            {"namespaces": "sum(infd_namespaces_left_to_others)"},
            kind=NUMBERS,
            steps=((None, "green"), (1, "red")),
        ),
        Panel(
            "Optional kinds",
            "Kinds of other projects: 1 if the operator uses them, because their CRD is installed",
            "short",
            {"{{resource}}": "max by (resource) (infd_optional_kind_used)"},
            kind=NUMBERS,
        ),
        Panel(
            "Scrapes",
            "Scrapes of engines and routers per second",
            "ops",
            {"{{component}} {{result}}": f"sum by (component, result) (rate(infd_scrapes_total{R}))"},
        ),
    ],
)


def narrowed(query: str) -> str:
    """A query of the chosen cluster, or of all; series without the label are of every one.

    Examples:
        >>> narrowed('sum(infd_leader) + max(haproxy_up{proxy="api"})')
        'sum(infd_leader{cluster=~"$cluster|"}) + max(haproxy_up{cluster=~"$cluster|",proxy="api"})'
    """
    return SERIES.sub(lambda found: f"{found[1]}{{{IN_CLUSTER}{',' if found[2] else '}'}", query)


def _of_clusters(board: Dashboard) -> Dashboard:
    panels = [
        replace(panel, queries={legend: narrowed(query) for legend, query in panel.queries.items()})
        for panel in board.panels
    ]
    annotations = {name: narrowed(query) for name, query in board.annotations.items()}
    return replace(board, variables=(CLUSTER, *board.variables), panels=panels, annotations=annotations)


DASHBOARDS = {
    name: _of_clusters(board)
    for name, board in {"service": SERVICE, "fleet": FLEET, "router": ROUTER, "operator": OPERATOR}.items()
}


def write() -> None:
    """Write the files of all dashboards."""
    FOLDER.mkdir(exist_ok=True)
    for name, dashboard in DASHBOARDS.items():
        (FOLDER / f"{name}.json").write_text(dashboard.json(), encoding="utf-8")
