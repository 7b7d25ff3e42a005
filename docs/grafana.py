"""The JSON of a dashboard that Grafana imports."""  # noqa: INP001 - part of a script

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

SCHEMA_VERSION = 39
"""Of Grafana 11; later releases convert it when they load it."""
WIDTH, HEIGHT = 12, 8
"""Of a panel, in the units of Grafana's grid, which is 24 wide."""
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Queries = Mapping[str, str]
"""PromQL by its legend."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph."""

    title: str
    meaning: str
    unit: str
    queries: Queries


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; `variables` are label names of `infd_replicas`, each narrowed by those before it."""

    uid: str
    title: str
    variables: Sequence[str]
    panels: Sequence[Panel]

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
            "panels": [_panel(number, panel) for number, panel in enumerate(self.panels)],
        }
        return json.dumps(content, indent=1) + "\n"


def _datasource() -> dict[str, object]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variables(names: Sequence[str]) -> Iterator[dict[str, object]]:
    for number, name in enumerate(names):
        narrowed = ",".join(f'{before}="${before}"' for before in names[:number])
        query = f"label_values(infd_replicas{{{narrowed}}}, {name})"
        yield {
            "name": name,
            "type": "query",
            "datasource": SOURCE,
            "definition": query,
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "sort": 1,
        }


def _panel(number: int, panel: Panel) -> dict[str, object]:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.meaning,
        "datasource": SOURCE,
        "gridPos": {"x": WIDTH * (number % 2), "y": HEIGHT * (number // 2), "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []}},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for at, (legend, query) in enumerate(panel.queries.items())
        ],
    }
