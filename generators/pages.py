"""Generates all pages and the dashboards: `python -m generators.pages`, a part of `make crd`."""

from pathlib import Path

from generators import (
    api_reference,
    chart_values,
    cli_reference,
    dashboards,
    engine_rules,
    metrics_reference,
    model_table,
    reasons_reference,
    request_path,
)

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"

PAGES = {
    "metrics.md": metrics_reference.page,
    "reasons.md": reasons_reference.page,
    "api.md": api_reference.page,
    "cli.md": cli_reference.page,
    "models.md": model_table.page,
}
"""All generated pages with their functions."""

if __name__ == "__main__":
    engine_rules.write()  # the page of metrics reads them
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
    (chart_values.CHART / "README.md").write_text(chart_values.page(), encoding="utf-8")
    request_path.write()
    dashboards.write()
