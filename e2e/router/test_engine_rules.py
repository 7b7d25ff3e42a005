"""The common names of engines' figures, evaluated by promtool: from vLLM's series, old and new, and from routers."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from e2e.router.prometheus import promtool, written
from generators.engine_rules import RULES, engine_rules

MINUTES, AT = 20, "15m"
OF = 'resource_namespace="a",name="qwen"'
ROUTER = {
    f'inference_operator_router_running_requests{{{OF},pod="r1",engine="10.0.0.1:8000"}}': "3",
    f'inference_operator_router_running_requests{{{OF},pod="r2",engine="10.0.0.1:8000"}}': "4",
    f'inference_operator_router_queued_requests{{{OF},pod="r1"}}': "2",
    f'inference_operator_router_time_to_first_byte_seconds_sum{{{OF},pod="r1",role="engine"}}': "0+120",
    f'inference_operator_router_time_to_first_byte_seconds_count{{{OF},pod="r1",role="engine"}}': "0+120",
    f'inference_operator_router_time_to_first_byte_seconds_bucket{{{OF},pod="r1",role="engine",le="+Inf"}}': "0+120",
}
VLLM = {
    f'vllm:num_requests_running{{{OF},pod="p",engine="0"}}': "5",
    f'vllm:num_requests_running{{{OF},pod="p",engine="1"}}': "6",
    f'vllm:num_requests_waiting{{{OF},pod="p",engine="0"}}': "7",
    f'vllm:kv_cache_usage_perc{{{OF},pod="p",engine="0"}}': "0.25",
    f'vllm:time_to_first_token_seconds_sum{{{OF},pod="p"}}': "0+120",
    f'vllm:time_to_first_token_seconds_count{{{OF},pod="p"}}': "0+60",
    f'vllm:time_to_first_token_seconds_bucket{{{OF},pod="p",le="+Inf"}}': "0+60",
    f'vllm:inter_token_latency_seconds_bucket{{{OF},pod="p",le="+Inf"}}': "0+120",
}
OLD_VLLM = {
    f'vllm:gpu_cache_usage_perc{{{OF},pod="p"}}': "0.75",
    f'vllm:time_per_output_token_seconds_bucket{{{OF},pod="p",le="+Inf"}}': "0+60",
}
OF_ROUTERS = {"infd:first_tokens:increase1h": 1800, "infd:first_tokens:increase6h": 1800}
"""The first tokens of routers, whatever engines count."""
IDLE = {one: "0" if "first_token" in one else value for one, value in VLLM.items()}
CASES: dict[str, tuple[Mapping[str, str], Mapping[str, float]]] = {
    "vLLM": (
        VLLM | ROUTER,
        OF_ROUTERS
        | {
            "infd:engine_running_requests:sum": 11,
            "infd:engine_waiting_requests:sum": 7,
            'infd:kv_cache_usage:ratio{pod="p"}': 0.25,
            "infd:first_token_seconds:mean5m": 2,
            'infd:first_token_seconds_bucket:rate5m{le="+Inf"}': 1,
            'infd:inter_token_latency_seconds_bucket:rate5m{le="+Inf"}': 2,
        },
    ),
    "an earlier vLLM": (
        OLD_VLLM,
        {
            'infd:kv_cache_usage:ratio{pod="p"}': 0.75,
            'infd:inter_token_latency_seconds_bucket:rate5m{le="+Inf"}': 1,
        },
    ),
    "engines without metrics": (
        ROUTER,
        OF_ROUTERS
        | {
            "infd:engine_running_requests:sum": 7,
            "infd:engine_waiting_requests:sum": 2,
            "infd:first_token_seconds:mean5m": 1,
            'infd:first_token_seconds_bucket:rate5m{le="+Inf"}': 2,
        },
    ),
    "an idle vLLM has no first token, and not the router's time": (
        IDLE | ROUTER,
        OF_ROUTERS
        | {
            "infd:engine_running_requests:sum": 11,
            "infd:engine_waiting_requests:sum": 7,
            'infd:kv_cache_usage:ratio{pod="p"}': 0.25,
            'infd:first_token_seconds_bucket:rate5m{le="+Inf"}': 0,
            'infd:inter_token_latency_seconds_bucket:rate5m{le="+Inf"}': 2,
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_figures_of_engines_have_common_names(case: str, tmp_path: Path) -> None:
    series, expected = CASES[case]
    found = {name.partition("{")[0]: (name.partition("{")[2].rstrip("}"), value) for name, value in expected.items()}
    tests = []
    for name, _ in engine_rules():
        labels, value = found.get(name, ("", None))
        of = ",".join(filter(None, (OF, labels)))
        samples = [] if value is None else [{"labels": f"{name}{{{of}}}", "value": value}]
        tests.append({"expr": name, "eval_time": AT, "exp_samples": samples})
    test = {
        "interval": "1m",
        "input_series": [{"series": one, "values": _over_time(value)} for one, value in series.items()],
        "promql_expr_test": tests,
    }
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "fuzzy_compare": True, "tests": [test]}
    done = promtool("test", "rules", str(written(tmp_path / "test.yaml", content)))
    assert done.returncode == 0, done.stdout + done.stderr


OF_A_POD = f'{OF},pod="p"'
OPEN_TELEMETRY = {
    "gen_ai_server_time_to_first_token_seconds": "time_to_first_token_seconds",
    "gen_ai_server_time_per_output_token_seconds": "request_time_per_output_token_seconds",
    "gen_ai_server_request_duration_seconds": "e2e_request_latency_seconds",
}


@pytest.mark.parametrize("name", OPEN_TELEMETRY)
def test_times_have_the_names_of_open_telemetry_and_the_reset_of_one_pod_is_no_loss(name: str, tmp_path: Path) -> None:
    of = "vllm:" + OPEN_TELEMETRY[name]
    ranks = {f'{of}_bucket{{{OF_A_POD},engine="{rank}",model_name="qwen",le="+Inf"}}': "0+60" for rank in (0, 1)}
    reset = {f'{of}_bucket{{{OF},pod="restarted",engine="0",model_name="qwen",le="+Inf"}}': f"600 0+60x{MINUTES}"}
    labels = 'gen_ai_provider_name="vllm",gen_ai_request_model="qwen",le="+Inf"'
    samples = [{"labels": f"{name}_bucket{{{OF_A_POD},{labels}}}", "value": 2 * 60 * 15}]
    test = {
        "interval": "1m",
        "input_series": [
            {"series": one, "values": value if "x" in value else _over_time(value)}
            for one, value in (ranks | reset).items()
        ],
        "promql_expr_test": [
            {"expr": f'{name}_bucket{{pod="p"}}', "eval_time": AT, "exp_samples": samples},
            {
                "expr": f"sum(increase({name}_bucket[10m]))",
                "eval_time": AT,
                "exp_samples": [{"labels": "{}", "value": 3 * 60 * 10}],
            },
        ],
    }
    rules = str(RULES.with_name("rules-opentelemetry.yaml"))
    content = {"rule_files": [rules], "evaluation_interval": "1m", "fuzzy_compare": True, "tests": [test]}
    done = promtool("test", "rules", str(written(tmp_path / "test.yaml", content)))
    assert done.returncode == 0, done.stdout + done.stderr


def _over_time(value: str) -> str:
    start, _, step = value.partition("+")
    return f"{start}+{step or 0}x{MINUTES}"
