"""The JSON of a dashboard that Grafana imports."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SCHEMA_VERSION = 39
"""Of Grafana 11; later releases convert it when they load it."""
WIDTH, HEIGHT = 12, 8
"""Of a panel, in the units of Grafana's grid, which is 24 wide."""
GRAPH, NUMBERS, STATES, TABLE = "timeseries", "stat", "state-timeline", "table"
"""Kinds of panels: lines over time, the last value of each query, a bar while a series has a value, and a row for each
resource with a column for each query."""
SERVICE_PAGE = (
    "/d/inference-service?${cluster:queryparam}&var-resource_namespace=${__data.fields.Namespace}"
    "&var-name=${__data.fields.Name}"
)
INTERVAL = "30s"
"""Shortest time of a step: the chart's `monitoring.podMonitors.interval`, which it writes here if it is another. A rate
counts four of them, so that it has two scrapes at least."""
Steps = Sequence[tuple[float | None, str]]
"""Colours by the value from which they hold; the first value is None."""
PLAIN: Steps = ((None, "text"),)
CLUSTER = "cluster"
"""The label by which Thanos and Mimir tell clusters apart. Where no series has it, the variable offers only All."""
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Queries = Mapping[str, str]
"""PromQL by its legend."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph, numbers, or states."""

    title: str
    meaning: str
    unit: str
    queries: Queries
    kind: str = GRAPH
    steps: Steps = PLAIN
    """Of numbers."""
    maximum: float | None = None
    """End of the scale, where a share of it is what counts."""
    whole: bool = False
    """Whether values are whole numbers, so that the scale has no fractions."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Of the columns of a table."""
    nothing: str | None = None
    """Shown instead of "No data" when no query has a series."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; `variables` are label names of series of every operator, each narrowed by those before it."""

    uid: str
    title: str
    variables: Sequence[str]
    panels: Sequence[Panel]
    annotations: Queries = field(default_factory=dict)
    """Marks in all graphs while a query has a value."""

    def json(self) -> str:
        """The file that Grafana imports."""
        content = {
            "uid": self.uid,
            "title": self.title,
            "tags": ["inference-operator"],
            "editable": False,
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "timezone": "browser",
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [_datasource(), *_variables(self.variables)]},
            **({"annotations": {"list": [*_annotations(self.annotations)]}} if self.annotations else {}),
            "panels": [
                _panel(number, panel, place)
                for number, (panel, place) in enumerate(zip(self.panels, _places(self.panels), strict=True))
            ],
        }
        return json.dumps(content, indent=1) + "\n"


def _datasource() -> dict[str, object]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variables(names: Sequence[str]) -> Iterator[dict[str, object]]:
    for number, name in enumerate(names):
        narrowed = ",".join(
            f'{before}=~"${before}|"' if before == CLUSTER else f'{before}="${before}"' for before in names[:number]
        )
        series = "infd_leader" if name == CLUSTER else f"infd_replicas{{{narrowed}}}"
        query = f"label_values({series}, {name})"
        every = {"includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}
        yield {
            **(every if name == CLUSTER else {}),
            "name": name,
            "type": "query",
            "datasource": SOURCE,
            "definition": query,
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "sort": 1,
        }


def _annotations(queries: Queries) -> Iterator[dict[str, object]]:
    for name, query in queries.items():
        yield {
            "name": name,
            "datasource": SOURCE,
            "enable": True,
            "expr": query,
            "step": INTERVAL,
            "titleFormat": name,
            "textFormat": "{{resource_namespace}}/{{name}}",
            "iconColor": "blue",
        }


def _places(panels: Sequence[Panel]) -> Iterator[dict[str, int]]:
    """The place of each panel: two in a row, or a table alone."""
    x = y = 0
    for panel in panels:
        width = 2 * WIDTH if panel.kind == TABLE else WIDTH
        if x + width > 2 * WIDTH:
            x, y = 0, y + HEIGHT
        yield {"x": x, "y": y, "w": width, "h": HEIGHT}
        x += width


def _panel(number: int, panel: Panel, place: Mapping[str, int]) -> dict[str, object]:
    once: dict[str, object] = {"instant": True, "range": False} if panel.kind in (NUMBERS, TABLE) else {}
    if panel.kind == TABLE:
        once |= {"format": "table"}
    return {
        "id": number + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": SOURCE,
        "interval": INTERVAL,
        "gridPos": place,
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _options(panel.kind),
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query, "legendFormat": legend, **once}
            for at, (legend, query) in enumerate(panel.queries.items())
        ],
        **({"transformations": _rows(panel)} if panel.kind == TABLE else {}),
    }


def _overrides(panel: Panel) -> list[dict[str, object]]:
    """The unit of each column of a table, and the link of a row to the page of its service."""
    if panel.kind != TABLE:
        return []
    links = [{"title": "Inference / Service", "url": SERVICE_PAGE}]
    return [
        _override("Name", "links", links),
        *(_override(column, "unit", unit) for column, unit in panel.units.items()),
    ]


def _override(column: str, option: str, value: object) -> dict[str, object]:
    return {"matcher": {"id": "byName", "options": column}, "properties": [{"id": option, "value": value}]}


def _rows(panel: Panel) -> list[dict[str, object]]:
    """The transformations that join the answers of a table's queries by resource, and name the columns."""
    values = {f"Value #{chr(ord('A') + at)}": column for at, column in enumerate(panel.queries)}
    names = {"resource_namespace": "Namespace", "name": "Name", "cluster": "Cluster", **values}
    order = {column: at for at, column in enumerate(names)}
    organized = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": names}
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": organized}]


def _defaults(panel: Panel) -> dict[str, object]:
    optional = {"max": panel.maximum, "decimals": 0 if panel.whole else None, "noValue": panel.nothing}
    found: dict[str, object] = {
        "unit": panel.unit,
        "min": 0,
        **{key: value for key, value in optional.items() if value is not None},
    }
    if panel.kind == NUMBERS:
        steps = [{"value": value, "color": colour} for value, colour in panel.steps]
        found |= {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == STATES:
        found |= {"color": {"mode": "palette-classic"}}
    return found


def _options(kind: str) -> dict[str, object]:
    if kind == TABLE:
        return {"showHeader": True, "cellHeight": "sm"}
    if kind == NUMBERS:
        last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
        return {"reduceOptions": last, "colorMode": "value", "graphMode": "none", "textMode": "auto"}
    if kind == STATES:
        return {"showValue": "never", "mergeValues": True, "rowHeight": 0.8, "legend": {"showLegend": False}}
    return {"legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []}}
