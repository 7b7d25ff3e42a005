"""Commands that write pages of `docs/`, the charts' README and the dashboards from the code; not part of the wheel."""
