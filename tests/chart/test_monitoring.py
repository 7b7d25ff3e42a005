import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from generators.dashboards import DASHBOARDS
from generators.engine_rules import RULES
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ENGINE, GATEWAY, INSPECTION, PREFILL, ROUTER, labels
from inference_operator.router.first_byte import BOUNDS_SECONDS
from inference_operator.router.observe import ROUTER_METRICS_PATH
from inference_operator.router.process import METRICS_PORTS
from inference_operator.settings import Settings
from inference_operator.telemetry.metrics import DESCRIPTIONS
from tests.chart.helm import NAMESPACE, REPOSITORY, Helm
from tests.testing.builders import ENGINES, inference_deployment, planned
from tests.testing.structural import schema_errors
from tests.testing.upstream_crds import prometheus_operator_crd

MONITORS = "monitoring.podMonitors.enabled=true"
OPEN_TELEMETRY = RULES.with_name("rules-opentelemetry.yaml")
ALERTS = "monitoring.rules.enabled=true"
BOARDS = "monitoring.dashboards.enabled=true"


def of_kind(helm: Helm, kind: str, *sets: str) -> dict[str, Manifest]:
    return {o["metadata"]["name"]: o for o in helm.objects(*sets) if o["kind"] == kind}


def selected(selector: Manifest, pod: dict[str, str]) -> bool:
    holds: dict[str, Callable[[Manifest], bool]] = {
        "Exists": lambda rule: rule["key"] in pod,
        "In": lambda rule: pod.get(rule["key"]) in rule["values"],
        "NotIn": lambda rule: pod.get(rule["key"]) not in rule["values"],
    }
    return all(pod.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        holds[rule["operator"]](rule) for rule in selector.get("matchExpressions", ())
    )


def test_nothing_for_monitoring_is_installed_by_default(helm: Helm) -> None:
    assert not {o["kind"] for o in helm.objects()} & {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
    assert not [o for o in helm.objects() if "grafana_dashboard" in o["metadata"].get("labels", {})]


@pytest.mark.parametrize(("kind", "plural"), [("PodMonitor", "podmonitors"), ("PrometheusRule", "prometheusrules")])
def test_objects_for_prometheus_operator_conform_to_its_crds(helm: Helm, kind: str, plural: str) -> None:
    crd = yaml.safe_load(prometheus_operator_crd(plural).read_text())
    (version,) = [v for v in crd["spec"]["versions"] if v["name"] == "v1"]
    found = of_kind(helm, kind, MONITORS, ALERTS, "scope.namespaces={team-a,team-b}").values()
    assert found
    for one in found:
        assert one["apiVersion"] == "monitoring.coreos.com/v1"
        assert schema_errors(one, version["schema"]["openAPIV3Schema"]) == []
        wrong = {**one, "spec": {**one["spec"], "selecter": {}}}
        assert schema_errors(wrong, version["schema"]["openAPIV3Schema"]) == ["spec.selecter: unknown field"]


def test_each_pod_is_selected_by_the_monitor_of_its_component(helm: Helm) -> None:
    monitors = of_kind(helm, "PodMonitor", MONITORS)
    (operator,) = [o for o in helm.objects() if o["kind"] == "Deployment"]
    pods = {
        "operator": operator["spec"]["template"]["metadata"]["labels"],
        **{component: labels("qwen", component) for component in (ENGINE, PREFILL, ROUTER, GATEWAY, INSPECTION)},
    }
    found = {
        pod: [name for name, monitor in monitors.items() if selected(monitor["spec"]["selector"], its)]
        for pod, its in pods.items()
    }
    assert found == {
        "operator": ["inference-operator"],
        ENGINE: ["inference-operator-engines"],
        PREFILL: ["inference-operator-engines"],
        ROUTER: ["inference-operator-routers"],
        GATEWAY: ["inference-operator-routers"],
        INSPECTION: [],
    }


def test_both_processes_of_a_router_are_scraped_on_both_pages(helm: Helm) -> None:
    endpoints = of_kind(helm, "PodMonitor", MONITORS)["inference-operator-routers"]["spec"]["podMetricsEndpoints"]
    ports = [f"metrics-{number}" for number, _ in enumerate(METRICS_PORTS, start=1)]
    expected = [(port, path) for port in ports for path in (None, ROUTER_METRICS_PATH)]
    assert [(one["port"], one.get("path")) for one in endpoints] == expected


def test_the_documented_annotations_name_the_port_at_which_the_operator_and_engines_serve_metrics(
    helm: Helm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (REPOSITORY / "docs" / "how-to" / "monitoring.md").read_text()
    (shown,) = re.findall(r"```yaml\n(podAnnotations: .*?)```", page, re.DOTALL)
    (tmp_path / "values.yaml").write_text(shown)
    operator = helm.one("Deployment", files=(tmp_path / "values.yaml",))
    for variable in operator["spec"]["template"]["spec"]["containers"][0]["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    engines = planned(inference_deployment(), settings=Settings()).desired[ENGINES]
    for pod in (operator["spec"]["template"], engines["spec"]["template"]):
        (port,) = (one for one in pod["spec"]["containers"][0]["ports"] if one["name"] == "http")
        noted = {name: text for name, text in pod["metadata"]["annotations"].items() if "prometheus" in name}
        assert noted == {"prometheus.io/scrape": "true", "prometheus.io/port": str(port["containerPort"])}


def test_monitors_look_into_the_namespaces_of_the_scope_only(helm: Helm) -> None:
    every = of_kind(helm, "PodMonitor", MONITORS)["inference-operator-engines"]
    some = of_kind(helm, "PodMonitor", MONITORS, "scope.namespaces={team-a,team-b}")["inference-operator-engines"]
    assert every["spec"]["namespaceSelector"] == {"any": True}
    assert some["spec"]["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]}


def test_namespaces_can_have_monitors_of_their_own(helm: Helm) -> None:
    """OpenShift's user workload monitoring ignores `namespaceSelector` (cluster-monitoring-operator, 4.21)."""
    found = [
        one for one in helm.objects(MONITORS, "monitoring.podMonitors.namespaces={a,b}") if one["kind"] == "PodMonitor"
    ]
    own = {
        (one["metadata"]["namespace"], one["metadata"]["name"].rpartition("-")[2]): one["spec"].get("namespaceSelector")
        for one in found
    }
    pods = {(namespace, what): {"matchNames": [namespace]} for namespace in "ab" for what in ("engines", "routers")}
    assert own == {**pods, (NAMESPACE, "operator"): None}


def test_every_series_of_a_resource_has_the_label_that_no_platform_overwrites(helm: Helm) -> None:
    monitors = of_kind(helm, "PodMonitor", MONITORS)
    for name in ("inference-operator-engines", "inference-operator-routers"):
        for endpoint in monitors[name]["spec"]["podMetricsEndpoints"]:
            assert {one["targetLabel"] for one in endpoint["relabelings"]} == {"name", "resource_namespace"}
    (endpoint,) = monitors["inference-operator"]["spec"]["podMetricsEndpoints"]
    assert "honorLabels" not in endpoint
    assert all("namespace" not in one.labels for one in DESCRIPTIONS)


def test_labels_by_which_prometheus_selects_are_added(helm: Helm) -> None:
    sets = [f"monitoring.{part}.labels.release=prom" for part in ("podMonitors", "rules")]
    found = [*of_kind(helm, "PodMonitor", MONITORS, *sets).values()]
    found += of_kind(helm, "PrometheusRule", ALERTS, *sets).values()
    assert len(found) == 4
    for one in found:
        assert {"release": "prom", "app.kubernetes.io/name": "inference-operator"}.items() <= one["metadata"][
            "labels"
        ].items()


def test_the_rules_are_those_of_the_file_with_links_to_runbooks(helm: Helm) -> None:
    (rule,) = of_kind(helm, "PrometheusRule", ALERTS).values()
    expected = yaml.safe_load(RULES.read_text())["groups"]
    base = "https://github.com/inference-operator/inference-operator/blob/main/docs/runbooks"
    for one in (rule for group in expected for rule in group["rules"] if "alert" in rule):
        one["annotations"]["runbook_url"] = f"{base}/{one['alert']}.md"
    assert rule["spec"]["groups"] == expected


def test_names_of_open_telemetry_are_recorded_where_they_are_asked_for(helm: Helm) -> None:
    (plain,) = of_kind(helm, "PrometheusRule", ALERTS).values()
    (more,) = of_kind(helm, "PrometheusRule", ALERTS, "monitoring.rules.openTelemetryNames=true").values()
    (group,) = yaml.safe_load(OPEN_TELEMETRY.read_text())["groups"]
    assert more["spec"]["groups"] == [*plain["spec"]["groups"], group]


def test_the_objectives_come_from_the_values(helm: Helm) -> None:
    sets = [f"monitoring.rules.{name}" for name in ("availability=0.9", "firstTokens=.8", "firstTokenSeconds=5.0")]
    sets.append("monitoring.rules.certificateDays=2")
    (rule,) = of_kind(helm, "PrometheusRule", ALERTS, *sets).values()
    rules = {
        one["record"]: one["expr"] for group in rule["spec"]["groups"] for one in group["rules"] if "record" in one
    }
    objectives = [expr for name, expr in rules.items() if name.endswith("_objective:ratio")]
    assert objectives == ["vector(0.9)", "vector(.8)"]
    assert rules["infd:certificate_notice:days"] == "vector(2)"
    late = [expr for name, expr in rules.items() if name.startswith("infd:late_first_tokens")]
    assert len(late) == 4
    assert all('le="5.0"' in expr for expr in late)
    assert 'le="2.5"' not in "".join(rules.values())


@pytest.mark.parametrize(
    "wrong",
    [
        *("availability=1.5", "availability=0", "availability=0.4", "firstTokens=.45"),
        *("firstTokenSeconds=3", "certificateDays=0", "runbooks=docs"),
    ],
)
def test_an_impossible_objective_is_refused(helm: Helm, wrong: str) -> None:
    assert wrong.partition("=")[0] in helm.refusal(ALERTS, f"monitoring.rules.{wrong}")


def test_each_longest_time_to_a_first_token_is_a_bucket_of_the_routers() -> None:
    schema = json.loads((RULES.parents[1] / "values.schema.json").read_text())
    rules = schema["properties"]["monitoring"]["properties"]["rules"]["properties"]
    assert {float(one) for one in rules["firstTokenSeconds"]["enum"]} <= set(BOUNDS_SECONDS)


def dashboards(helm: Helm, value: str) -> list[Manifest]:
    """The ConfigMaps of the dashboards, with a value of the chart."""
    maps = of_kind(helm, "ConfigMap", BOARDS, value).values()
    return [one for one in maps if "grafana_dashboard" in one["metadata"]["labels"]]


def test_rates_of_dashboards_count_several_scrapes_of_the_interval(helm: Helm) -> None:
    maps = dashboards(helm, "monitoring.podMonitors.interval=90s")
    boards = [json.loads(text) for one in maps for text in one["data"].values()]
    assert {panel["interval"] for board in boards for panel in board["panels"]} == {"90s"}
    assert "interval" in helm.refusal(MONITORS, "monitoring.podMonitors.interval=5m")


def test_dashboards_are_config_maps_with_the_label_of_the_sidecar(helm: Helm) -> None:
    maps = dashboards(helm, "monitoring.dashboards.annotations.grafana_folder=Inference")
    contents = {name: json.loads(text) for one in maps for name, text in one["data"].items()}
    assert contents == {f"inference-{name}.json": json.loads(board.json()) for name, board in DASHBOARDS.items()}
    for one in maps:
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["annotations"] == {"grafana_folder": "Inference"}
