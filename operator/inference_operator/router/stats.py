"""What HAProxy's statistics mean.

Its Prometheus exporter names servers by their slot, which is nothing to the outside; the statistics page in its CSV
form has the address of each (HAProxy 3.0, management guide, 9.1), with the option `stats show-legends`.
"""

from collections import Counter
from collections.abc import Mapping

from inference_operator.views.samples import RouterSample

STATS_PATH = "/stats"
"""Where the frontend of the metrics shows them."""

SAMPLE_PATH = f"{STATS_PATH};up;csv"
"""Only servers that are up: the other slots, at least 31 for one engine, say nothing."""

_BACKEND = "engines"
_TOTAL = "BACKEND"
_HOLD = "hold"
_COLUMNS = ("pxname", "svname", "scur", "qcur", "addr")


def router_sample(text: str) -> RouterSample | None:
    r"""Read a router's statistics; None where they are something else.

    Examples:
        >>> router_sample(
        ...     "# pxname,svname,qcur,scur,addr,\n"
        ...     "engines,e1,0,2,10.0.0.1:8000,\n"
        ...     "engines,hold,0,0,127.0.0.1:9,\n"
        ...     "engines,BACKEND,3,6,,\n"
        ... )
        RouterSample(sessions={'10.0.0.1': 2}, queued=3, held=1)
    """
    header, _, rest = text.removeprefix("# ").partition("\n")
    names = header.split(",")
    if not set(_COLUMNS) <= set(names):
        return None
    places = [names.index(name) for name in _COLUMNS]
    rows = [_row(line.split(","), places) for line in rest.splitlines()]
    servers = [row for row in rows if row.get("pxname") == _BACKEND]
    total = next((row for row in servers if row["svname"] == _TOTAL), None)
    if total is None:
        return None
    sessions: Counter[str] = Counter()
    for row in servers:
        if row["svname"] not in (_TOTAL, _HOLD) and row["addr"]:
            sessions[row["addr"].rpartition(":")[0].strip("[]")] += _count(row["scur"])
    queued = _count(total["qcur"])
    return RouterSample(dict(sessions), queued, max(0, _count(total["scur"]) - queued - sum(sessions.values())))


def _row(fields: list[str], places: list[int]) -> Mapping[str, str]:
    if len(fields) <= max(places):
        return {}
    return {name: fields[place] for name, place in zip(_COLUMNS, places, strict=True)}


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0
