"""The query for the number of engines, evaluated by a real Prometheus on series as HAProxy and vLLM write them."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from bench.promql import Labels, Store, labels, parsed
from e2e.go_modules import PROMTOOL, ensure_prometheus
from inference_operator.api.spec import MAX_NAME_LENGTH
from inference_operator.autoscaling.query import engines_query
from inference_operator.engines.telemetry import EngineSeries
from inference_operator.engines.vllm.metrics import SERIES
from inference_operator.manifest import Key

MINUTES = 12
AT = "10m"
"""When the rule is read: the window of the rates is over."""
RULE = "inference_operator_engines_wanted"


LONGEST = "q" * MAX_NAME_LENGTH


def query(
    *,
    name: str = "qwen",
    target: float = 32.0,
    external: bool = False,
    metrics: EngineSeries = SERIES,
    least: float = 0.0,
    groups: bool = False,
) -> str:
    return engines_query(
        Key("a", name),
        "engine",
        target,
        bypasses_routers=external,
        metrics=metrics,
        least_seconds=least,
        has_groups=groups,
    )


def router(sessions: int, *, name: str = "qwen", pod: str = "6f9c8d7b54-x2k9p", namespace: str = "a") -> dict[str, str]:
    """The series of a router with two HAProxy containers, with the labels of its exporter (3.0) and of a PodMonitor."""
    of = f'namespace="{namespace}",pod="{name}-router-{pod}",job="routers"'
    at_engine = f'{of},container="haproxy-2",engine="10.0.0.1:8000"'
    series = {
        f'inference_operator_router_queued_requests{{{of},container="haproxy"}}': sessions - sessions // 2,
        f'inference_operator_router_queued_requests{{{of},container="haproxy-2"}}': 0,
        f'inference_operator_router_held_requests{{{of},container="haproxy"}}': 0,
        f'inference_operator_router_held_requests{{{of},container="haproxy-2"}}': sessions // 2 - sessions // 4,
        f"inference_operator_router_running_requests{{{at_engine}}}": sessions // 4,
        f'haproxy_backend_current_sessions{{{of},container="haproxy",proxy="engines"}}': 999,
    }
    return {one: _constant(value) for one, value in series.items()}


def active(engines: int) -> dict[str, str]:
    """The number of engines to which each process of a router sends requests."""
    of = 'namespace="a",pod="qwen-router-6f9c8d7b54-x2k9p",proxy="engines"'
    series = (f'haproxy_backend_active_servers{{{of},container="{one}"}}' for one in ("haproxy", "haproxy-2"))
    return {one: _constant(engines) for one in series}


def engine(
    number: int, *, running: int = 0, waiting: int = 0, finished: int = 0, name: str = "qwen", cores: int = 1
) -> dict[str, str]:
    """The series of one engine with the labels of vLLM 0.32; it finishes so many requests a minute."""
    of = f'namespace="a",pod="{name}-engine-5d4f9b7c6d-aaaa{number}",model_name="qwen"'
    found = {}
    for core in range(cores):
        labels = f'{of},engine="{core}"'
        found[f"vllm:num_requests_running{{{labels}}}"] = _constant(running)
        found[f"vllm:num_requests_waiting{{{labels}}}"] = _constant(waiting)
        found[f'vllm:request_success_total{{{labels},finished_reason="stop"}}'] = f"0+{finished}x{MINUTES}"
    return found


def engines(count: int, *, running: int, waiting: int = 0, finished: int = 0) -> dict[str, str]:
    found: dict[str, str] = {}
    for number in range(count):
        found |= engine(number, running=running, waiting=waiting, finished=finished)
    return found


def _named(pod: str, series: Mapping[str, str]) -> dict[str, str]:
    """The same series of a pod with another name, as the API server cuts it to 63 characters."""
    return {re.sub('pod="[^"]*"', f'pod="{pod}"', one): values for one, values in series.items()}


def _constant(value: int) -> str:
    return f"{value}+0x{MINUTES}"


STEADY = engines(3, running=17, finished=51)
"""51 running requests, 153 finished in a minute: 20 s for each."""
LOADED = engines(2, running=40, waiting=10, finished=80)
"""80 running, 160 finished in a minute: 30 s for each."""

GROUPED = {
    series: values
    for number in range(2)
    for series, values in _named(f"qwen-engine-{number}-0", engine(number, running=40, waiting=10, finished=80)).items()
}
"""The same in two groups."""

CASES: dict[str, tuple[str, Mapping[str, str], float | None]] = {
    "a request held at zero engines": (query(), router(1), 1 / 32),
    "many requests held at zero engines": (query(), router(100), 100 / 32),
    "no requests": (query(), router(0) | STEADY, 0.0),
    "load below the target": (query(), router(51) | STEADY, 51 / 0.85 / 32),
    "a backlog": (query(), router(100) | LOADED, (64 / 0.85 + 36) / 32),
    "a backlog of short requests": (
        query(),
        router(100) | engines(2, running=40, finished=480),
        (64 / 0.85 + 36 * 5 / 30) / 32,
    ),
    "a backlog where nothing has finished": (query(), router(100) | engines(2, running=40), (64 / 0.85 + 36) / 32),
    "two routers": (query(), router(30) | router(21, pod="6f9c8d7b54-zzzzz") | STEADY, 51 / 0.85 / 32),
    "an engine with two cores": (query(), router(64) | engine(0, running=16, cores=2), (32 / 0.85 + 32) / 32),
    "resources with similar names, and of other namespaces": (
        query(),
        router(51)
        | STEADY
        | router(50, name="qwen-router")
        | router(50, name="my-qwen")
        | router(50, namespace="b")
        | engine(0, name="qwen-engine", running=50),
        51 / 0.85 / 32,
    ),
    "no metrics of routers": (query(), STEADY, None),
    "no metrics at all": (query(), {}, None),
    "external routing": (
        query(external=True),
        engines(2, running=40, waiting=10, finished=80),
        (64 / 0.85 + 36) / 32,
    ),
    "external routing without metrics": (query(external=True), router(5), None),
    "the longest name": (
        query(name=LONGEST),
        _named(f"{LONGEST}-roabcde", router(51)) | _named(f"{LONGEST}-enabcde", engine(0, running=51, finished=51)),
        (32 / 0.85 + 19) / 32,
    ),
    "engines without series": (
        query(metrics=EngineSeries()),
        router(100) | active(2) | LOADED,
        (64 / 0.85 + 36) / 32,
    ),
    "engines without series at zero": (query(metrics=EngineSeries()), router(1), 1 / 32),
    "external routing to engines without series": (query(external=True, metrics=EngineSeries()), LOADED, None),
    "engines that count only what runs": (
        query(external=True, metrics=EngineSeries(running=SERIES.running)),
        LOADED,
        (64 / 0.85 + 16) / 32,
    ),
    "prompts that bind, of which few are in engines": (
        query(target=9.0, least=0.3),
        router(3) | engines(2, running=1, finished=1800),
        60 * 0.3 / 0.85 / 9,
    ),
    "prompts that bind, in full engines": (
        query(target=9.0, least=0.3),
        router(40) | engines(2, running=9, finished=1800),
        (18 / 0.85 + 22 * 0.3 / 30) / 9,
    ),
    "prompts that bind, before any has finished": (
        query(target=9.0, least=0.3),
        router(3) | engines(2, running=1),
        3 / 0.85 / 9,
    ),
    "groups, of whose pods the first one has series": (
        query(groups=True),
        router(100) | GROUPED | _named("qwen-engine-0-1", engine(0, running=99)),
        (64 / 0.85 + 36) / 32,
    ),
    "a group beside an engine that is none": (
        query(groups=True, external=True),
        engine(0, running=40, finished=80) | _named("qwen-engine-0-0", engine(1, running=40, finished=80)),
        (64 / 0.85 + 16) / 32,
    ),
    "a fractional target": (query(target=12.5), router(10) | STEADY, 10 / 0.85 / 12.5),
}


@pytest.mark.parametrize("name", CASES)
def test_prometheus_computes_the_engines_wanted(name: str, tmp_path: Path) -> None:
    expression, series, expected = CASES[name]
    rules = tmp_path / "rules.yaml"
    labels = {"namespace": "a", "inferencedeployment": "qwen"}
    rule = {"record": RULE, "labels": labels, "expr": expression}
    rules.write_text(yaml.safe_dump({"groups": [{"name": "engines", "rules": [rule]}]}))
    samples = [{"labels": f'{RULE}{{namespace="a",inferencedeployment="qwen"}}', "value": expected}]
    test = {
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": [{"expr": RULE, "eval_time": AT, "exp_samples": [] if expected is None else samples}],
    }
    tests = tmp_path / "tests.yaml"
    content = {"rule_files": [str(rules)], "evaluation_interval": "1m", "fuzzy_compare": True, "tests": [test]}
    tests.write_text(yaml.safe_dump(content))
    command = [str(ensure_prometheus() / PROMTOOL), "test", "rules", str(tests)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name", CASES)
def test_the_bench_evaluates_the_query_as_prometheus_does(name: str) -> None:
    expression, series, expected = CASES[name]
    store = Store()
    for minute in range(int(AT.removesuffix("m")) + 1):
        store.scrape(60.0 * minute, {_labels(one): _at(values, minute) for one, values in series.items()})
    found = parsed(expression)(store, store.scraped)
    assert isinstance(found, dict)
    assert list(found.values()) == ([] if expected is None else [pytest.approx(expected)])


def _labels(series: str) -> Labels:
    name, _, rest = series.partition("{")
    return labels(name, **dict(re.findall(r'(\w+)="([^"]*)"', rest)))


def _at(values: str, minute: int) -> float:
    """The value of `first+growthxcount` after so many minutes."""
    first, growth = re.split(r"[+x]", values)[:2]
    return float(first) + minute * float(growth)
