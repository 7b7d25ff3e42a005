"""A status as `kubectl get` and `kubectl describe` print it."""

import re
from collections.abc import Iterator, Sequence

from inference_operator.api.crd import crd
from inference_operator.manifest import Manifest

COLUMNS: Sequence[Manifest] = crd()["spec"]["versions"][0]["additionalPrinterColumns"]
_CONDITION = re.compile(r"^\.status\.conditions\[\?\(@\.type==\"(\w+)\"\)\]\.(\w+)$")
GAP = 3
"""Spaces between two columns of `kubectl get`."""


def table(raw: Manifest, *, wide: bool = False) -> list[str]:
    """The lines of `kubectl get`, or of `kubectl get --output wide`."""
    shown = [one for one in COLUMNS if wide or not one.get("priority")]
    heads = ["NAME", *(one["name"].upper() for one in shown)]
    cells = [raw["metadata"]["name"], *(_cell(raw, one) for one in shown)]
    widths = [max(len(head), len(cell)) + GAP for head, cell in zip(heads, cells, strict=True)]
    return [
        "".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in (heads, cells)
    ]


def described(status: Manifest) -> Iterator[str]:
    """The lines of `kubectl describe` for a status, without its plan."""
    for name, value in status.items():
        if name == "conditions":
            yield "Conditions:"
            for one in value:
                yield f"  {one['type']}: {one['status']}, {one['reason']}"
                yield f"    {one['message']}"
        elif name != "plan":
            yield f"{name}: {value}"


def _cell(raw: Manifest, column: Manifest) -> str:
    if column["type"] == "date":
        return "5m"
    path = column["jsonPath"]
    if found := _CONDITION.match(path):
        conditions = raw["status"]["conditions"]
        return str(next((one[found[2]] for one in conditions if one["type"] == found[1]), ""))
    value: object = raw
    for step in path.strip(".").split("."):
        value = value.get(step, "") if isinstance(value, dict) else ""
    return str(value)
