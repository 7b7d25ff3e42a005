"""Reads a router's load from HAProxy's statistics page in CSV form.

HAProxy's Prometheus exporter has only the names of server slots. The CSV form also has each server's address (HAProxy
3.0, management guide, 9.1), with the option `stats show-legends`.
"""

import re
from collections import Counter
from collections.abc import Mapping

from inference_operator.views.samples import RouterSample

STATS_PATH = "/stats"
"""Path of the statistics page on the metrics frontend."""

SAMPLE_PATH = f"{STATS_PATH};up;csv"
"""Path of the statistics of servers that are up. Unused slots, at least 31 with one engine, are left out."""

_BACKEND = "engines"
_TOTAL = "BACKEND"
_HOLD, _GATE = "hold", "gate"
_SHOWN_BY_OLDER = "stopping"
_COUNT = re.compile("[0-9]{1,19}")
"""HAProxy counts in 64 bits."""
_COLUMNS = ("pxname", "svname", "scur", "stot", "qcur", "addr")
_OF_PROMPTS = ("req_tot", "hrsp_4xx", "hrsp_5xx")
"""Of the frontend for prompts of engines, beside these."""
_PROMPTS, _PREFILL, _FRONTEND = "prompts", "prefill", "FRONTEND"


def router_sample(text: str) -> RouterSample | None:
    """The sample in a router's statistics; None if the text is something else."""
    header, _, rest = text.removeprefix("# ").partition("\n")
    names = header.split(",")
    if not set(_COLUMNS) <= set(names):
        return None
    places = {name: names.index(name) for name in (*_COLUMNS, *_OF_PROMPTS) if name in names}
    rows = [_row(line.split(","), places) for line in rest.splitlines()]
    servers = [row for row in rows if row.get("pxname") == _BACKEND]
    total = next((row for row in servers if row["svname"] == _TOTAL), None)
    if total is None or not all(_COUNT.fullmatch(total[name]) for name in ("scur", "stot", "qcur")):
        return None
    sessions: Counter[str] = Counter()
    twice, came_twice = 0, 0
    for row in servers:
        if row["svname"] == _HOLD:  # it leads back to the backend
            twice, came_twice = _count(row["scur"]), _count(row["stot"])
        elif row["svname"] not in (_TOTAL, _GATE) and row["addr"]:
            sessions[row["addr"].rpartition(":")[0].strip("[]")] += _count(row["scur"])
    queued = _count(total["qcur"])
    held = max(0, _count(total["scur"]) - queued - sum(sessions.values()) - twice)
    is_older = any(row.get("pxname") == _SHOWN_BY_OLDER for row in rows)
    by_name = {(row.get("pxname"), row.get("svname")): row for row in rows}
    prompts, prefill = by_name.get((_PROMPTS, _FRONTEND), {}), by_name.get((_PREFILL, _TOTAL), {})
    requests, refused, failed = (_count(prompts.get(name, "")) for name in _OF_PROMPTS)
    refused = max(0, refused - _count(prefill.get("hrsp_4xx", "")))  # by the router, not by an engine
    arrivals, waiting = max(0, _count(total["stot"]) - came_twice), _count(prefill.get("qcur", ""))
    came = max(0, requests - refused)
    return RouterSample(dict(sessions), queued, held, arrivals, is_older, came, waiting, failed)


def _row(fields: list[str], places: Mapping[str, int]) -> Mapping[str, str]:
    if len(fields) <= max(places.values()):
        return {}
    return {name: fields[place] for name, place in places.items()}


def _count(text: str) -> int:
    return int(text) if _COUNT.fullmatch(text) else 0
