"""HPA and KEDA: their objects, the replicas that follow from them, and what the status says about them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from inference_operator.api.prometheus import PrometheusSettings
from inference_operator.api.reasons import ConditionType
from inference_operator.engines.vllm.metrics import SERIES
from inference_operator.manifest import HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT, Kind, Manifest, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings
from inference_operator.status.report import report
from tests.testing.builders import ENGINES, NOW, SETTINGS, inference_deployment, inputs, model_known, planned
from tests.testing.golden import GoldenFile
from tests.testing.schemas import validate

HPA, SCALED = Ref(HORIZONTAL_POD_AUTOSCALER, "default", "qwen"), Ref(SCALED_OBJECT, "default", "qwen")


def of_prometheus(url: str, **fields: object) -> Settings:
    found = PrometheusSettings.model_validate({"url": url, **fields})
    return SETTINGS.model_copy(update={"prometheus": found})


PROMETHEUS = of_prometheus("http://prometheus.monitoring.svc:9090")
OPENSHIFT = of_prometheus(
    "https://thanos-querier.openshift-monitoring.svc:9092",
    clusterTriggerAuthentication="thanos",
    authModes=["bearer"],
    namespace="Resource",
)
METRICS_OF_VLLM = Path(__file__).parents[1] / "engines" / "vllm-0.32.0-metrics.txt"
ACTIVE = {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"}
NO_METRICS_API = {
    "type": "ScalingActive",
    "status": "False",
    "reason": "FailedGetExternalMetric",
    "message": "the HPA was unable to compute the replica count: no custom metrics API (external.metrics.k8s.io)",
}
OFFICE = {"start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 4}
READY = {"type": "Ready", "status": "True", "reason": "ScaledObjectReady"}


def asked(backend: str, *, replicas: int = 1, router: Mapping[str, object] | None = None, **fields: object) -> Manifest:
    autoscaling = {"backend": backend, "maxReplicas": 8, "targetConcurrency": 32, **fields}
    return inference_deployment(autoscaling=autoscaling, replicas=replicas, router=dict(router or {}))


def built(raw: Manifest) -> Mapping[Ref, Manifest]:
    return planned(raw, settings=PROMETHEUS).desired


def seen(raw: Manifest, *, live: Iterable[Manifest] = (), engines: int = 1, recorded: int | None = None) -> Inputs:
    """A resource whose engines' Deployment has so many replicas, with the live objects of its autoscaler."""
    children = dict(built(inference_deployment()))
    children[ENGINES] = {**children[ENGINES], "spec": {**children[ENGINES]["spec"], "replicas": engines}}
    if recorded is not None:
        status = {"desiredReplicas": recorded, "reason": "r", "lastScaleTime": "2026-01-02T03:04:05Z"}
        raw = {**raw, "status": {"autoscaling": status}}
    return inputs(raw, children=[*children.values(), *live], settings=PROMETHEUS)


def decided(what: Inputs) -> Planned:
    result = outcome(what)
    assert isinstance(result, Planned), result
    return result


def replicas(what: Inputs) -> int:
    found: int = decided(what).desired[ENGINES]["spec"]["replicas"]
    return found


def scaling_active(what: Inputs) -> tuple[str, str, str]:
    found = report(what, outcome(what), ()).status.condition(ConditionType.SCALING_ACTIVE)
    assert found
    return found.status, found.reason, found.message


def hpa(raw: Manifest, *conditions: Mapping[str, str], wanted: int = 1) -> Manifest:
    return {**built(raw)[HPA], "status": {"conditions": list(conditions), "desiredReplicas": wanted}}


def scaled_object(raw: Manifest, *conditions: Mapping[str, str], age: timedelta = timedelta(hours=1)) -> Manifest:
    one = built(raw)[SCALED]
    created = (NOW - age).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        **one,
        "metadata": {**one["metadata"], "creationTimestamp": created},
        "status": {"conditions": list(conditions)},
    }


@pytest.mark.parametrize(
    ("raw", "ref", "settings"),
    [
        pytest.param(asked("HPA"), HPA, PROMETHEUS, id="hpa"),
        pytest.param(asked("KEDA", minReplicas=0, idleTimeout="10m"), SCALED, PROMETHEUS, id="keda"),
        pytest.param(asked("KEDA", schedule=[OFFICE]), SCALED, PROMETHEUS, id="keda-schedule"),
        pytest.param(asked("KEDA"), SCALED, OPENSHIFT, id="keda-authenticated"),
        pytest.param(asked("HPA", router={"strategy": "External"}), HPA, PROMETHEUS, id="hpa-external"),
    ],
)
def test_golden_autoscaler(raw: Manifest, ref: Ref, settings: Settings, snapshot: SnapshotAssertion) -> None:
    found = planned(raw, settings=settings).desired
    validate(found[ref])
    assert {HPA, SCALED} & found.keys() == {ref}
    assert yaml.safe_dump(found[ref], width=1000) == snapshot.use_extension(GoldenFile.ending("yaml"))


@pytest.mark.parametrize(("hour", "least"), [(7, 1), (8, 4), (17, 4), (18, 1)])
def test_an_hpa_gets_the_fewest_engines_of_the_schedule_at_its_time(hour: int, least: int) -> None:
    at = datetime(2026, 1, 5, hour, tzinfo=UTC)
    raw = asked("HPA", schedule=[OFFICE])
    found = outcome(inputs(raw, children=[model_known(raw)], settings=PROMETHEUS, now=at))
    assert isinstance(found, Planned)
    assert found.desired[HPA]["spec"]["minReplicas"] == least
    assert found.due is not None
    assert found.due <= at.replace(hour=8 if hour < 8 else 18) + timedelta(days=hour >= 18)


def test_the_builtin_backend_makes_no_object_of_another_autoscaler() -> None:
    assert not {HPA, SCALED} & built(asked("BuiltIn")).keys()


def test_another_autoscaler_ends_the_decisions_of_the_operator() -> None:
    assert decided(seen(asked("BuiltIn"))).scaling
    assert not decided(seen(asked("HPA"))).scaling


def test_the_query_names_only_metrics_that_vllm_writes() -> None:
    page = METRICS_OF_VLLM.read_text()
    for name in (SERIES.running, SERIES.waiting):
        assert f"\n{name}{{" in page
    assert re.search(rf"^{SERIES.finished}(_total)?{{", page, re.MULTILINE)


def test_the_hpa_asks_for_one_metric_with_an_absolute_value_and_no_ratio_of_waiting_requests() -> None:
    (metric,) = built(asked("HPA"))[HPA]["spec"]["metrics"]
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "1"}


def test_keda_reads_missing_metrics_as_an_error_and_never_as_no_demand() -> None:
    spec = built(asked("KEDA", minReplicas=0))[SCALED]["spec"]
    assert spec["triggers"][0]["metadata"]["ignoreNullValues"] == "false"
    assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"
    assert (spec["minReplicaCount"], spec["pollingInterval"]) == (0, 5)


class TestReplicas:
    def test_a_switch_from_builtin_to_hpa_keeps_the_engines_until_the_hpa_has_written(self) -> None:
        raw = asked("HPA", replicas=1)
        assert replicas(seen(raw, engines=5, recorded=5)) == 5
        waiting = hpa(raw, {"type": "ScalingActive", "status": "Unknown"})
        assert replicas(seen(raw, live=[waiting], engines=5, recorded=5)) == 5
        in_flight = hpa(raw, ACTIVE, wanted=4)
        assert replicas(seen(raw, live=[in_flight], engines=5, recorded=5)) == 5
        written = asked("HPA", replicas=4)
        assert replicas(seen(written, live=[hpa(written, ACTIVE, wanted=4)], engines=5, recorded=5)) == 4

    def test_the_engines_follow_what_the_hpa_writes(self) -> None:
        for now, written in ((1, 6), (6, 2)):
            raw = asked("HPA", replicas=written)
            assert replicas(seen(raw, live=[hpa(raw, ACTIVE, wanted=written)], engines=now, recorded=now)) == written

    def test_an_hpa_without_metrics_takes_no_engine_away(self) -> None:
        raw = asked("HPA", replicas=1)
        assert replicas(seen(raw, live=[hpa(raw, NO_METRICS_API)], engines=3, recorded=3)) == 3

    def test_limits_hold_while_another_autoscaler_decides(self) -> None:
        raw = asked("HPA", replicas=20)
        assert replicas(seen(raw, live=[hpa(raw, ACTIVE, wanted=20)], engines=5)) == 8

    def test_a_switch_from_hpa_to_builtin_keeps_the_engines(self) -> None:
        assert replicas(seen(asked("BuiltIn", replicas=1), engines=5, recorded=5)) == 5

    def test_keda_scales_to_zero_and_its_first_minute_takes_no_engine_away(self) -> None:
        raw = asked("KEDA", replicas=0, minReplicas=0)
        new = seen(raw, live=[scaled_object(raw, READY, age=timedelta(seconds=20))], engines=3, recorded=3)
        assert replicas(new) == 3
        assert decided(new).due == NOW + timedelta(seconds=40)
        assert replicas(seen(raw, live=[scaled_object(raw, READY)], engines=3, recorded=3)) == 0


CONDITIONS: dict[str, tuple[Manifest, Any, tuple[str, str], str]] = {
    "an HPA that acts": (
        asked("HPA"),
        lambda raw: hpa(raw, ACTIVE),
        ("True", "FollowingAutoscaler"),
        "sets the number",
    ),
    "an HPA that has read nothing yet": (asked("HPA"), hpa, ("Unknown", "AutoscalerPending"), "not read its metric"),
    "an HPA without the metrics API": (
        asked("HPA"),
        lambda raw: hpa(raw, NO_METRICS_API),
        ("False", "AutoscalerFailed"),
        "Check that an adapter serves `external.metrics.k8s.io`",
    ),
    "an HPA at zero replicas": (
        asked("HPA", replicas=0),
        lambda raw: hpa(raw, {"type": "ScalingActive", "status": "False", "reason": "ScalingDisabled"}),
        ("False", "AutoscalerFailed"),
        "set `spec.replicas` to 1",
    ),
    "a ScaledObject that nobody reads": (
        asked("KEDA"),
        scaled_object,
        ("Unknown", "AutoscalerPending"),
        "Check that KEDA runs",
    ),
    "a ScaledObject that acts": (
        asked("KEDA"),
        lambda raw: scaled_object(raw, READY),
        ("True", "FollowingAutoscaler"),
        "sets the number",
    ),
    "KEDA in fallback": (
        asked("KEDA"),
        lambda raw: scaled_object(
            raw, READY, {"type": "Fallback", "status": "True", "reason": "FallbackExists", "message": "a trigger fails"}
        ),
        ("False", "AutoscalerFailed"),
        "FallbackExists: a trigger fails",
    ),
    "KEDA that cannot read its metric": (
        asked("KEDA"),
        lambda raw: scaled_object(
            raw, READY, {"type": "HPAActive", "status": "False", "reason": "HPAMetricsUnavailable", "message": "m"}
        ),
        ("False", "AutoscalerFailed"),
        "Check that KEDA reaches Prometheus",
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_condition_says_what_another_autoscaler_does_and_names_the_fix(name: str) -> None:
    raw, live, expected, words = CONDITIONS[name]
    status, reason, message = scaling_active(seen(raw, live=[live(raw)]))
    assert (status, reason) == expected
    assert words in message


@pytest.mark.parametrize(
    ("kinds", "url", "words"),
    [
        ({SCALED_OBJECT: "the cluster has no scaledobjects.keda.sh. Install its CRD."}, "http://p", "Install its CRD"),
        ({}, "", "Set `settings.prometheus.url`"),
    ],
)
def test_without_keda_or_the_address_of_prometheus_there_is_no_object_and_the_condition_names_the_fix(
    kinds: Mapping[Kind, str], url: str, words: str
) -> None:
    found = seen(asked("KEDA", replicas=2), engines=4, recorded=4)
    without = replace(found, unavailable_kinds=kinds, settings=of_prometheus(url))
    assert SCALED not in decided(without).desired
    assert replicas(without) == 4
    status, reason, message = scaling_active(without)
    assert (status, reason) == ("False", "AutoscalerMissing")
    assert words in message


def test_a_live_scaled_object_stays_while_its_kind_cannot_be_listed() -> None:
    raw = asked("KEDA")
    live = scaled_object(raw, READY)
    found = replace(seen(raw, live=[live]), unavailable_kinds={SCALED_OBJECT: "no right to list it."})
    assert decided(found).desired[SCALED] == live


def test_a_backlog_of_vllm_alone_counts_with_external_routing() -> None:
    query = built(asked("HPA", router={"strategy": "External"}))[HPA]["metadata"]["annotations"][
        "inference-operator.dev/prometheus-query"
    ]
    assert SERIES.waiting in query
    assert "haproxy" not in query


def query_of(*, objective: Mapping[str, str] | None = None, parallelism: Mapping[str, int] | None = None) -> str:
    limits = {"backend": "HPA", "maxReplicas": 8, "objective": objective or {}}
    raw = inference_deployment(autoscaling=limits, parallelism=dict(parallelism or {}))
    found: str = built(raw)[HPA]["metadata"]["annotations"]["inference-operator.dev/prometheus-query"]
    return found


def test_the_query_counts_what_engines_finish_where_prompts_bind_them_and_the_first_pods_of_groups() -> None:
    plain = query_of()
    strict = query_of(objective={"ttft": "200ms", "tpot": "1s"})
    grouped = query_of(parallelism={"tensor": 1, "nodes": 2})
    assert "clamp_min(clamp_max(" in strict
    assert "clamp_min(clamp_max(" not in plain
    (pattern,) = set(re.findall(r'pod=~"(qwen-engine-[^"]*)"', grouped))
    pods = (
        "qwen-engine-0-0",
        "qwen-engine-12-0",
        "qwen-engine-5d4f9b7c6d-aaaa1",
        "qwen-engine-0-1",
        "qwen-engine-0-10",
    )
    assert [bool(re.fullmatch(pattern, pod)) for pod in pods] == [True, True, True, False, False]
    assert "|" not in plain, "the rules of engines of one pod stay as they are"
