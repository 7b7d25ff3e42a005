"""Generates the reference page of the API from the schema of the pydantic models."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from inference_operator.api.crd import structural_schema
from inference_operator.api.spec import Spec
from inference_operator.api.status import Status
from inference_operator.manifest import API_VERSION, KIND, Manifest

INTRODUCTION = f"""\
# {KIND} ({API_VERSION})
All fields of the resource. Only `spec.model.source` is required. A change of a field has one of these effects:
- **in place**: nothing restarts.
- **rolling restart**: engines are replaced one by one. [update.md](../how-to/update.md) explains what serves meanwhile.

`kubectl explain infd.spec --recursive` shows the same; [the CRD](../../crds/inferencedeployments.yaml) has all bounds.
Rights to set fields: [Security](../explanation/security.md#rights-of-who-writes-a-resource).

This page is generated from the models in `operator/inference_operator/api`.
"""

_PARTS = re.compile(r"^(?P<meaning>.*?)(?: Default: (?P<default>.*?)\.)?(?: Change: (?P<change>.*?)\.)?$", re.DOTALL)
_REQUIRED = " Required."


@dataclass(frozen=True, slots=True)
class Row:
    """One field."""

    path: str
    kind: str
    meaning: str
    default: str
    change: str
    """The effect of a change; inherited from the parent if the field has none."""


def rows(schema: Manifest, path: str = "spec", parent: Row | None = None) -> Iterator[Row]:
    """The fields of a schema, each before its sub-fields. These inherit the default, except in items of a list."""
    for name, node in schema.get("properties", {}).items():
        if "description" not in node:  # a former name, which is refused
            continue
        row = _row(f"{path}.{name}", node, parent, required=name in schema.get("required", ()))
        yield row
        if "items" in node:
            yield from rows(node["items"], f"{row.path}[]", replace(row, default=""))
        else:
            yield from rows(node, row.path, row)


def _row(path: str, node: Manifest, parent: Row | None, *, required: bool) -> Row:
    found = _PARTS.match(node.get("description", "").replace(_REQUIRED, ""))
    said: dict[str, str] = found.groupdict(default="") if found else {}
    inherited = parent.default.replace("required", "") if parent else ""
    default = "required" if required else said.get("default") or inherited
    change = said.get("change") or (parent.change if parent else "")
    return Row(path, _kind(node), said.get("meaning", ""), default, change)


def _kind(node: Manifest) -> str:
    if "items" in node:
        return f"list of {_kind(node['items'])}, at most {node['maxItems']}"
    if "additionalProperties" in node:
        return f"map, at most {node['maxProperties']}"
    if "enum" in node:
        return " or ".join(f"`{value}`" for value in node["enum"])
    if "minimum" in node:
        return f"{node['minimum']} to {node['maximum']}"
    return str(node.get("type", "quantity"))


def page() -> str:
    """The page about the API."""
    return INTRODUCTION + "".join((*_spec(), *_status()))


def _spec() -> Iterator[str]:
    yield "\n## spec\n| field | type | meaning | default | change |\n|---|---|---|---|---|\n"
    for row in rows(structural_schema(Spec)):
        cells = (f"`{row.path.removeprefix('spec.')}`", row.kind, row.meaning, row.default, row.change)
        yield f"| {' | '.join(_cell(cell) for cell in cells)} |\n"


def _status() -> Iterator[str]:
    yield "\n## status\nThe reasons of its conditions: [reasons.md](reasons.md).\n\n| field | meaning |\n|---|---|\n"
    for row in rows(structural_schema(Status), "status"):
        yield f"| `{row.path.removeprefix('status.')}` | {_cell(row.meaning)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
