"""Generates the reference page of the API from the schema of the pydantic models."""

import re
from collections.abc import Iterable, Iterator
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

`kubectl explain infd.spec.FIELD` explains one field; [the CRD](../../crds/inferencedeployments.yaml) has all bounds.
Rights to set fields: [Security](../explanation/security.md#rights-of-who-writes-a-resource).

This page is generated from the models in `operator/inference_operator/api`.
"""

_PARTS = re.compile(r"^(?P<meaning>.*?)(?: Default: (?P<default>.*?)\.)?(?: Change: (?P<change>.*?)\.)?$", re.DOTALL)
_REQUIRED = " Required."
PODS = ("scheduling", "podTemplate")
"""Sections that engines and routers have alike."""
_LINK = "[fields of pods](#pods)"
_SHARED = """\
Fields of `scheduling` and `podTemplate`, of the engines. `router.scheduling` and `router.podTemplate` have the same
for the routers; a change replaces routers one by one, and no engine. Names and meaning are those of Kubernetes.

"""


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
        return " or ".join(f"`{str(value).lower() if value is True else value}`" for value in node["enum"])
    if "minimum" in node:
        return f"{node['minimum']} to {node['maximum']}"
    return str(node.get("type", "quantity"))


def page() -> str:
    """The page about the API."""
    return INTRODUCTION + "".join((*_spec(), *_status()))


def _spec() -> Iterator[str]:
    """The fields, first those of the service, then once those that engines' and routers' pods share."""
    every = list(rows(structural_schema(Spec)))
    plumbing = tuple(f"spec.{of}{section}" for of in ("", "router.") for section in PODS)
    own = [row for row in every if not row.path.startswith(tuple(f"{path}." for path in plumbing))]
    yield from _table("spec", "", [replace(row, kind=_LINK) if row.path in plumbing else row for row in own])
    shared = tuple(f"spec.{section}." for section in PODS)
    yield from _table("Pods", _SHARED, [row for row in every if row.path.startswith(shared)])


def _table(title: str, text: str, shown: Iterable[Row]) -> Iterator[str]:
    yield f"\n## {title}\n{text}| field | type | meaning | default | change |\n|---|---|---|---|---|\n"
    for row in shown:
        cells = (f"`{row.path.removeprefix('spec.')}`", row.kind, row.meaning, row.default, row.change)
        yield f"| {' | '.join(map(_cell, cells))} |\n"


def _status() -> Iterator[str]:
    yield "\n## status\nThe reasons of its conditions: [reasons.md](reasons.md).\n\n| field | meaning |\n|---|---|\n"
    for row in rows(structural_schema(Status), "status"):
        yield f"| `{row.path.removeprefix('status.')}` | {_cell(row.meaning)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
