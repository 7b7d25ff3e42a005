"""Every alert fires on the series of its fault, and is silent for healthy resources and for those scaled to zero."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from e2e.router.prometheus import promtool, written
from generators.dashboards import DASHBOARDS
from generators.engine_rules import RULES
from generators.metrics_reference import rules

MINUTES = 600
DAY = 86400
Series = dict[str, str]


def resource(name: str, **changes: str) -> Series:
    """The series of a resource; without changes those of a healthy one. An empty value removes a series."""
    of = f'resource_namespace="a",name="{name}"'
    first_byte = "inference_operator_router_time_to_first_byte_seconds"
    every = {
        f'infd_replicas{{{of},state="desired"}}': "desired",
        f'infd_replicas{{{of},state="ready"}}': "ready",
        f"infd_max_replicas{{{of}}}": "most",
        f'infd_gpus{{{of},gpu="L4",state="allocated"}}': "gpus",
        f'infd_condition{{{of},type="Stalled",status="True",reason="DiskFull"}}': "stalled",
        f'infd_condition{{{of},type="RouterAvailable",status="True",reason="Serving"}}': "routed",
        f'infd_condition{{{of},type="RouterAvailable",status="False",reason="CrashLoop"}}': "unrouted",
        f'infd_router_pods{{{of},state="unready"}}': "unready_routers",
        f"infd_router_restarts_total{{{of}}}": "router_restarts",
        f'infd_condition{{{of},type="Reconciling",status="True",reason="NodeLeaving"}}': "moving",
        f'infd_startup_step{{{of},step="LoadingWeights"}}': "loading",
        f'haproxy_frontend_http_responses_total{{{of},proxy="api",code="2xx"}}': "good",
        f'haproxy_frontend_http_responses_total{{{of},proxy="api",code="5xx"}}': "bad",
        f"inference_operator_router_queued_requests{{{of}}}": "queued",
        f"inference_operator_router_held_requests{{{of}}}": "held",
        f"inference_operator_router_certificate_expiry_timestamp_seconds{{{of}}}": "certificate",
        f"inference_operator_router_key_users{{{of}}}": "users",
        f"inference_operator_router_key_lines_skipped{{{of}}}": "skipped",
        f'vllm:num_requests_running{{{of},pod="p"}}': "running",
        f'vllm:num_requests_waiting{{{of},pod="p"}}': "waiting",
        f'vllm:kv_cache_usage_perc{{{of},pod="p"}}': "cache",
        f'vllm:num_preemptions_total{{{of},pod="p"}}': "preempted",
        f'vllm:spec_decode_num_draft_tokens_total{{{of},pod="p"}}': "guessed",
        f'vllm:spec_decode_num_accepted_tokens_total{{{of},pod="p"}}': "accepted",
        f'vllm:nixl_num_failed_transfers_total{{{of},pod="p"}}': "unread",
        f'inference_operator_engine_prefills_total{{{of},pod="p",place="remote",cause=""}}': "remote",
        f'vllm:request_success_total{{{of},pod="p",finished_reason="stop"}}': "ended",
        f'{first_byte}_bucket{{{of},pod="r",role="engine",le="2.5"}}': "in_time",
        f'{first_byte}_count{{{of},pod="r",role="engine"}}': "tokens",
        f'vllm:time_to_first_token_seconds_bucket{{{of},pod="p",le="2.5"}}': "in_time_at_engines",
        f'vllm:time_to_first_token_seconds_count{{{of},pod="p"}}': "tokens_of_engines",
    }
    healthy = {
        "desired": "2",
        "ready": "2",
        "most": "4",
        "gpus": "2",
        "stalled": "",
        "routed": "1",
        "unrouted": "",
        "unready_routers": "0",
        "router_restarts": "0",
        "moving": "",
        "loading": "",
        "good": "0+99",
        "bad": "0+1",
        "queued": "0",
        "held": "0",
        "certificate": str(8 * DAY),
        "users": "1",
        "skipped": "0",
        "running": "3",
        "waiting": "1",
        "cache": "0.5",
        "preempted": "0",
        "guessed": "0+300",
        "accepted": "0+60",
        "unread": "0+1",
        "remote": "0+100",
        "ended": "0+100",
        "in_time": "0+95",
        "tokens": "0+100",
        "in_time_at_engines": "0+100",
        "tokens_of_engines": "0+100",
    }
    values = {**healthy, **changes}
    return {one: over_time(values[key]) for one, key in every.items() if values[key]}


def gateway(name: str, *, fallbacks: str) -> Series:
    """The series of a gateway with an alias."""
    of = f'resource_namespace="a",name="{name}",model="chat"'
    prefix = "inference_operator_router_"
    return {
        f'{prefix}model_requests_total{{{of},target="t",code="2xx"}}': over_time("0+100"),
        f'{prefix}fallbacks_total{{{of},target="t"}}': over_time(fallbacks),
    }


def over_time(value: str) -> str:
    """A value as promtool has it: constant, growing each minute, or already over time."""
    if "x" in value:
        return value
    start, _, step = value.partition("+")
    return f"{start}+{step or 0}x{MINUTES}"


def wave(mean: int, height: int, minutes: int = 20) -> str:
    """A value that goes up and down around its mean, once in so many minutes."""
    values = [mean + round(height * math.sin(2 * math.pi * minute / minutes)) for minute in range(MINUTES)]
    return " ".join(f"{value}x0" for value in values)


ENGINES_GONE = dict.fromkeys(("gpus", "running", "waiting", "cache", "preempted", "ended", "in_time", "tokens"), "")
AT_ZERO = {"desired": "0", "ready": "0", "bad": "0", **ENGINES_GONE}
NO_ROUTER = {"routed": "", "unrouted": "1"}
ZERO = resource("zero", desired="0", ready="0", good="0+1", bad="0+9", **ENGINES_GONE)
"""Scaled to zero: its routers answer 503."""
LEADS, STANDS_BY = 'infd_leader{pod="o-1"}', 'infd_leader{pod="o-2"}'


@dataclass(frozen=True)
class Fault:
    """The series of a fault, when its alert fires, and the labels of that beside those of the resource."""

    alert: str
    minute: int
    series: Series
    severity: str = "warning"
    labels: dict[str, str] = field(default_factory=dict)
    leads: bool = True


FAULTS = (
    Fault("InferenceErrorBudgetBurn", 60, resource("ill", good="0+90", bad="0+10"), "critical"),
    Fault("InferenceErrorBudgetBurn", 240, resource("ill", good="0+96", bad="0+4"), "critical"),
    Fault("InferenceFirstTokenBudgetBurn", 60, resource("ill", in_time="0+20", tokens="0+100")),
    Fault("InferenceFirstTokenBudgetBurn", 240, resource("ill", in_time="0+60", tokens="0+100")),
    Fault("InferenceFirstTokenBudgetBurn", 60, resource("ill", in_time="", tokens="", in_time_at_engines="0+20")),
    Fault("InferenceErrorBudgetBurn", 60, resource("ill", good="0", bad="0+1"), "critical"),
    Fault("InferenceGatewayFallsBack", 40, gateway("ill", fallbacks="0+20"), labels={"model": "chat"}),
    Fault("InferenceErrorBudgetBurn", 130, resource("ill", desired=f"0x60 2x{MINUTES}", bad="0+10"), "critical"),
    Fault("InferenceNoEngine", 70, resource("ill", ready="2x60 0x540", **ENGINES_GONE), "critical"),
    Fault(
        "InferenceNoEngine",
        75,
        resource("ill", desired=f"0x20 2x{MINUTES}", ready=f"0x24 2x40 0x{MINUTES}", **ENGINES_GONE),
        "critical",
    ),
    Fault(
        "InferenceRouterDown",
        70,
        resource("ill", routed=f"1x60 _x{MINUTES}", unrouted=f"_x60 1x{MINUTES}"),
        "critical",
        {"reason": "CrashLoop"},
    ),
    Fault(
        "InferenceRouterDown",
        6,
        resource("ill", **NO_ROUTER, **AT_ZERO, unready_routers="2"),
        "critical",
        {"reason": "CrashLoop"},
    ),
    Fault("InferenceRouterRestarts", 40, resource("ill", **AT_ZERO, router_restarts=f"0x20 0+1x{MINUTES}")),
    Fault("InferenceStalled", 6, resource("ill", stalled="1"), labels={"reason": "DiskFull"}),
    Fault(
        "InferenceStartStuck",
        31,
        resource("ill", ready="0", loading="1", **ENGINES_GONE),
        labels={"step": "LoadingWeights"},
    ),
    Fault("InferenceMoveWaits", 31, resource("ill", moving="1")),
    Fault("InferenceKvCacheFull", 20, resource("ill", cache="0.99", preempted="0+1")),
    Fault("InferenceSpeculationWasted", 60, resource("ill", guessed="0+300", accepted="0+36"), "info"),
    Fault("InferencePrefillTransfersFail", 25, resource("ill", unread="0+9")),
    Fault("InferenceQueueGrowing", 20, resource("ill", queued="1+1")),
    Fault("InferenceQueueGrowing", 20, resource("ill", held="1+1")),
    Fault("InferenceQueueGrowing", 20, resource("ill", waiting="1+1")),
    Fault("InferenceScalingLimited", 20, resource("ill", most="2", held="3")),
    Fault("InferenceGpusIdle", 130, resource("ill", gpus="8", running="0", ended="5"), "info"),
    Fault("InferenceCertificateEnds", 11, resource("ill", certificate=str(7 * DAY))),
    Fault("InferenceCertificateEnds", 11, resource("ill", certificate="0")),
    Fault("InferenceKeysInvalid", 6, resource("ill", skipped="1")),
    Fault("InferenceKeysInvalid", 6, resource("ill", users="0")),
    Fault("InferenceRolloutStopped", 16, {'infd_rollout_resources{pod="o-1",state="failed"}': over_time("1")}),
    Fault(
        "InferenceRolloutStopped",
        16,
        {
            'infd_rollout_resources{pod="o-1",state="waiting"}': over_time("9"),
            'infd_rollout_resources{pod="o-1",state="rolling"}': over_time("0"),
        },
    ),
    Fault("InferenceOperatorDown", 7, {}, "critical", leads=False),
    Fault("InferenceOperatorDown", 6, {LEADS: over_time("0")}, "critical"),
    Fault("InferenceOperatorStalls", 12, {'infd_event_loop_longest_stall_seconds{pod="o-1"}': over_time("1.5")}),
    Fault(
        "InferenceOperatorFails",
        30,
        {'infd_reconcile_errors_total{pod="o-1",reason="ClusterError"}': over_time("0+1")},
        labels={"reason": "ClusterError"},
    ),
    Fault(
        "InferenceOperatorsOverlap",
        6,
        {'infd_namespaces_left_to_others{pod="o-3"}': over_time("1")},
        labels={"pod": "o-3"},
    ),
)
NOT_FAULTS = {
    "a model that was never ready has no engine": resource("ill", ready="0", **ENGINES_GONE),
    "a start from zero, after which 10 held answers are late": resource(
        "ill",
        desired=f"0x60 1x{MINUTES}",
        ready=f"0x90 1x{MINUTES}",
        in_time=f"0x91 0+1x{MINUTES}",
        tokens=f"0x90 10+1x{MINUTES}",
    ),
    "a download of an hour before the first router": resource("ill", ready="0", **NO_ROUTER, **ENGINES_GONE),
    "routers that begin to serve within 4 minutes": resource(
        "ill",
        routed=f"_x34 1x{MINUTES}",
        unrouted="_x30 1x3 stale",
        unready_routers=f"_x30 2x4 0x{MINUTES}",
    ),
    "a node with all routers that starts again": resource("ill", router_restarts=f"0x40 4x{MINUTES}"),
    "a full cache without preemptions": resource("ill", cache="1"),
    "all engines that autoscaling may want": resource("ill", most="2", waiting="0"),
    "a long queue that does not grow": resource("ill", queued="50"),
    "a long queue that goes up and down": resource("ill", queued=wave(50, 35)),
    "a step of a start for 20 minutes": resource("ill", loading=f"1x20 _x{MINUTES}"),
    "an hour without a request": resource("ill", running="0", ended=f"0+1x30 30x60 30+1x{MINUTES}"),
    "short requests that no scrape sees": resource("ill", running="0", ended="0+1"),
    "one request for hours": resource("ill", running="1", ended="5"),
    "engines that have just started": resource("ill", gpus=f"_x60 8x59 _x{MINUTES}", running="0", ended="5"),
    "a fault that is over": resource("ill", good="0+99", bad=f"0+8x4 40+0x{MINUTES}"),
    "a certificate that was renewed": resource("ill", certificate=f"{DAY}x5 {30 * DAY}x{MINUTES}"),
    "no certificate and no keys": resource("ill", certificate="", users="", skipped=""),
    "engines that were scaled to zero": resource("ill", desired="2x60 0x540", ready="2x60 0x540"),
    "a slow start from zero": resource("ill", desired="2x30 0x30 2x540", ready="2x30 0x50 2x520"),
    "answers at zero before engines start": resource(
        "ill",
        desired=f"0x60 2x{MINUTES}",
        ready=f"0x62 2x{MINUTES}",
        good=f"0x62 0+99x{MINUTES}",
        bad=f"0+9x62 567x{MINUTES}",
    ),
    "three failed answers of ten": resource("ill", good=f"0x28 7x{MINUTES}", bad=f"0x28 3x{MINUTES}"),
    "three late first tokens of three": resource("ill", in_time="0", tokens=f"0x28 3x{MINUTES}"),
}


def outcome(
    folder: Path, series: Series, minutes: Sequence[int], expected: Sequence[str], rules_file: Path = RULES
) -> str:
    """What promtool says if exactly these alerts fire; empty if they do."""
    return verdict(folder, series, [firing(minute, expected) for minute in minutes], rules_file)


def firing(minute: int, expected: Sequence[str], matcher: str = "") -> dict[str, object]:
    """At this minute exactly these alerts fire, of those that the matcher selects."""
    samples = [{"labels": one, "value": 1} for one in expected]
    return {"expr": f'ALERTS{{alertstate="firing"{matcher}}}', "exp_samples": samples, "eval_time": f"{minute}m"}


def verdict(folder: Path, series: Series, checks: Sequence[object], rules_file: Path = RULES) -> str:
    """What promtool says of these checks; empty if they hold."""
    lines = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": lines, "promql_expr_test": checks}
    file = written(
        folder / "test.yaml", {"rule_files": [str(rules_file)], "evaluation_interval": "1m", "tests": [test]}
    )
    done = promtool("test", "rules", str(file))
    return "" if done.returncode == 0 else done.stdout + done.stderr


def others(*, leads: bool = True) -> Series:
    """What is well in every test."""
    return {
        **resource("well"),
        **ZERO,
        LEADS: over_time("1" if leads else f"1x0 0x{MINUTES}"),
        STANDS_BY: over_time("0"),
    }


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.alert)
def test_an_alert_fires_on_its_fault_alone_and_not_for_a_resource_at_zero(fault: Fault, tmp_path: Path) -> None:
    series = {**others(leads=fault.leads), **fault.series}
    assert outcome(tmp_path, series, [fault.minute], [expected_of(fault)]) == ""


def expected_of(fault: Fault, **more: str) -> str:
    """The series of its alert."""
    own = {"resource_namespace": "a", "name": "ill"} if any('name="ill"' in one for one in fault.series) else {}
    labels = {"alertname": fault.alert, "alertstate": "firing", "severity": fault.severity, **own, **fault.labels}
    return "ALERTS{" + ",".join(f'{name}="{value}"' for name, value in {**labels, **more}.items()) + "}"


def test_clusters_with_the_same_names_in_one_store_are_kept_apart(tmp_path: Path) -> None:
    """Each fault has a cluster of its own, in a Thanos or Mimir that has the series of all."""
    series, checks = Series(), []
    for number, fault in enumerate(fault for fault in FAULTS if LEADS not in fault.series):
        cluster = f"c{number}"
        of_cluster = {**others(leads=fault.leads), **fault.series}
        series |= {one.replace("{", f'{{cluster="{cluster}",', 1): values for one, values in of_cluster.items()}
        checks.append(firing(fault.minute, [expected_of(fault, cluster=cluster)], f',cluster="{cluster}"'))
    assert len(checks) == len(FAULTS) - 1
    assert verdict(tmp_path, series, checks) == ""


@pytest.mark.parametrize("case", NOT_FAULTS)
def test_no_alert_fires_without_a_fault(case: str, tmp_path: Path) -> None:
    assert outcome(tmp_path, {**others(), **NOT_FAULTS[case]}, range(30, 190, 2), []) == ""


@pytest.mark.parametrize(
    ("objective", "bad", "alert"),
    [
        ("infd:availability_objective:ratio", {"good": "0+1", "bad": "0+99"}, "InferenceErrorBudgetBurn"),
        ("infd:first_token_objective:ratio", {"in_time": "0+1"}, "InferenceFirstTokenBudgetBurn"),
    ],
)
def test_the_lowest_objective_of_the_chart_has_an_alert(
    objective: str, bad: dict[str, str], alert: str, tmp_path: Path
) -> None:
    schema = json.loads((RULES.parents[1] / "values.schema.json").read_text())
    lowest = schema["definitions"]["objective"]["minimum"]
    changed = yaml.safe_load(RULES.read_text())
    (rule,) = [one for group in changed["groups"] for one in group["rules"] if one.get("record") == objective]
    rule["expr"] = f"vector({lowest})"
    file = written(tmp_path / "rules.yaml", changed)
    severity = "critical" if alert == "InferenceErrorBudgetBurn" else "warning"
    expected = (
        f'ALERTS{{alertname="{alert}",alertstate="firing",resource_namespace="a",name="ill",severity="{severity}"}}'
    )
    assert outcome(tmp_path, {**others(), **resource("ill", **bad)}, [60, 400], [expected], file) == ""


def test_every_alert_is_tested() -> None:
    assert {fault.alert for fault in FAULTS} == {rule["alert"] for rule in rules() if "alert" in rule}


def test_the_rules_and_every_query_of_the_dashboards_are_valid(tmp_path: Path) -> None:
    queries = [query for board in DASHBOARDS.values() for panel in board.panels for query in panel.queries.values()]
    records = [
        {"record": f"query_{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries)
    ]
    file = written(tmp_path / "queries.yaml", {"groups": [{"name": "queries", "rules": records}]})
    done = promtool("check", "rules", str(RULES), str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(records)} rules found" in done.stdout


def test_the_documented_scrape_jobs_are_a_valid_configuration(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "monitoring.md"
    (shown,) = re.findall(r"```yaml\n(scrape_configs:\n.*?)```", page.read_text(), re.DOTALL)
    content = yaml.safe_load(shown)
    for job in content["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs"), "this promtool has no service discovery"
    done = promtool("check", "config", str(written(tmp_path / "prometheus.yaml", content)))
    assert done.returncode == 0, done.stdout + done.stderr
