import json
import re
from pathlib import Path

import pytest
import yaml

from generators.dashboards import DASHBOARDS, FOLDER
from generators.grafana import Dashboard, Panel
from generators.metrics_reference import (
    ENGINE,
    EXPORTED,
    FORMER,
    OF_PROGRAMS,
    OTHERS,
    metrics_in,
    recorded,
    rules,
    uses,
)
from inference_operator.objects.names import MANAGER
from inference_operator.router.observe import METRICS
from inference_operator.telemetry.metrics import DESCRIPTIONS
from tests.testing.builders import ENGINES, inference_deployment, planned
from tests.testing.for_each import for_each

REPOSITORY = Path(__file__).parents[2]
RUNBOOKS = REPOSITORY / "docs" / "runbooks"
PAGES = (REPOSITORY / "tests" / "engines").glob("*-metrics.txt")
OF_REAL_ENGINES = "".join(page.read_text() for page in sorted(PAGES))

OWN = {one.name for one in DESCRIPTIONS} | {one.name for one in METRICS}
DOCUMENTED = OWN | set(recorded()).union(EXPORTED, ENGINE, OF_PROGRAMS, FORMER, OTHERS)
PANELS = [(name, panel) for name, board in DASHBOARDS.items() for panel in board.panels]
QUERIES = [query for _, panel in PANELS for query in panel.queries.values()] + [rule["expr"] for rule in rules()]
ALERTS = [rule for rule in rules() if "alert" in rule]
META = "__meta_kubernetes_pod"
OF_A_RESOURCE = {
    f"{META}_label_app_kubernetes_io_managed_by": MANAGER,
    f"{META}_label_inference_operator_dev_name": "qwen",
}
DISCOVERED = {
    "operator": {
        f"{META}_label_app_kubernetes_io_name": "inference-operator",
        f"{META}_container_port_name": "http",
    },
    "engine": {**OF_A_RESOURCE, f"{META}_container_port_name": "http"},
    "inspection": OF_A_RESOURCE,
    **{f"router {n}": {**OF_A_RESOURCE, f"{META}_container_port_name": f"metrics-{n}"} for n in (1, 2)},
}
"""What Prometheus discovers of each container port."""
SELECTOR = re.compile(r"([A-Za-z_:][\w:]*)\s*[{\[]")


@for_each(QUERIES)
def test_every_query_of_a_dashboard_or_rule_reads_only_documented_metrics(query: str) -> None:
    with_selector = {metric for name in SELECTOR.findall(query) for metric in metrics_in(name) or {name}}
    assert metrics_in(query) | with_selector <= DOCUMENTED


def test_every_documented_metric_is_used_by_a_dashboard_or_rule() -> None:
    assert sorted(DOCUMENTED - set(uses())) == []


@pytest.mark.parametrize("name", ENGINE)
def test_every_engine_metric_exists_in_the_engine_with_its_label(name: str) -> None:
    label, _ = ENGINE[name]
    assert re.search(rf"^# TYPE {name} ", OF_REAL_ENGINES, re.MULTILINE)
    if label and name != "vllm:admission_rejections_total":  # without a rejection it has no series
        assert re.search(rf'^{name}\{{.*{label}="', OF_REAL_ENGINES, re.MULTILINE)


@pytest.mark.parametrize("name", FORMER)
def test_a_former_name_is_gone_from_the_engine_and_is_read_beside_the_name_of_today(name: str) -> None:
    today, _ = FORMER[name]
    assert f"# TYPE {name} " not in OF_REAL_ENGINES
    (query,) = [query for query in recorded().values() if name in metrics_in(query)]
    assert today in metrics_in(query)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_committed_dashboard_equals_the_generated_one(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text() == DASHBOARDS[name].json(), "stale: run `make crd`"
    assert {path.stem for path in FOLDER.iterdir()} == set(DASHBOARDS)


@pytest.mark.parametrize("board", DASHBOARDS.values(), ids=DASHBOARDS)
def test_queries_use_no_variable_that_their_dashboard_lacks(board: Dashboard) -> None:
    used = set(re.findall(r"\$(\w+)", " ".join(query for panel in board.panels for query in panel.queries.values())))
    assert used - {"__rate_interval"} == set(board.variables)
    content = json.loads(board.json())
    assert [one["name"] for one in content["templating"]["list"]] == ["datasource", *board.variables]
    assert content["editable"] is False
    assert len({panel["id"] for panel in content["panels"]}) == len(board.panels)


@for_each(PANELS, named=lambda entry: f"{entry[0]}: {entry[1].title}")
def test_every_panel_says_what_it_shows_and_takes_counters_as_rates(entry: tuple[str, Panel]) -> None:
    _, panel = entry
    assert panel.title
    assert panel.meaning
    assert panel.unit
    for query in panel.queries.values():
        counters = [name for name in metrics_in(query) if name.endswith("_total") and not name.startswith("infd:")]
        rates = query.count("rate(") + query.count("increase(")
        assert rates >= len(counters), query


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_has_a_severity_texts_and_a_runbook(alert: dict[str, dict[str, str]]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert {"summary", "description"} == set(alert["annotations"])
    page = (RUNBOOKS / f"{alert['alert']}.md").read_text()
    assert page.startswith(f"# {alert['alert']}\n")
    assert "**Look" in page
    assert "**Do" in page


def test_the_documented_scrape_jobs_keep_each_component_by_the_labels_and_ports_of_its_pods() -> None:
    page = (REPOSITORY / "docs" / "how-to" / "monitoring.md").read_text()
    (shown,) = re.findall(r"```yaml\n(scrape_configs:\n.*?)```", page, re.DOTALL)
    kept = {
        job["job_name"]: {
            component
            for component, pod in DISCOVERED.items()
            if all(
                re.fullmatch(str(rule["regex"]), pod.get(rule["source_labels"][0], ""))
                for rule in job["relabel_configs"]
                if rule.get("action") == "keep"
            )
        }
        for job in yaml.safe_load(shown)["scrape_configs"]
    }
    assert kept == {
        "inference-operator": {"operator"},
        "inference-engines": {"engine"},
        "inference-routers": {"router 1", "router 2"},
        "inference-routers-own": {"router 1", "router 2"},
    }


def test_the_documented_arguments_for_traces_reach_the_engine() -> None:
    page = (REPOSITORY / "docs" / "how-to" / "monitoring.md").read_text()
    (shown,) = re.findall(r"```yaml\n(spec:\n.*?)```", page, re.DOTALL)
    raw = inference_deployment(**yaml.safe_load(shown)["spec"])
    container = planned(raw).desired[ENGINES]["spec"]["template"]["spec"]["containers"][0]
    assert "--otlp-traces-endpoint=http://otel-collector.monitoring:4317" in container["args"]
    assert {"name": "OTEL_SERVICE_NAME", "value": "qwen"} in container["env"]


def test_every_runbook_is_of_an_alert() -> None:
    assert {page.stem for page in RUNBOOKS.iterdir()} == {alert["alert"] for alert in ALERTS}
