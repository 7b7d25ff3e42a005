"""Output formats of `infd`: tables for people, JSON and YAML for programs, and YAML documents for `kubectl apply`."""

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Literal

import yaml

from inference_operator.manifest import Manifest

LEFT_COLUMNS = 2
"""Number of text columns; the others are numbers."""


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns, the first two left-aligned; a row may be shorter than others.

    Examples:
        >>> table([("NAME", "GPU", "TENSOR"), ("qwen3-8b", "L4", "2"), ("x", "no")])
        ['NAME      GPU  TENSOR', 'qwen3-8b  L4        2', 'x         no']
    """
    widths = [max(len(cell) for cell in column) for column in zip_longest(*rows, fillvalue="")]
    return ["  ".join(_cells(row, widths)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if number < LEFT_COLUMNS else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(row, widths, strict=False))
    ]


def first_of(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are.

    Examples:
        >>> first_of(["a", "b", "c"], 2), first_of(["a"], 2)
        ('a, b and 1 more', 'a')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def dumped(documents: Sequence[Manifest], form: Literal["json", "yaml"]) -> str:
    shown = documents[0] if len(documents) == 1 else list(documents)
    if form == "json":
        return json.dumps(shown, indent=2)
    text: str = yaml.safe_dump(shown, sort_keys=False)
    return text.rstrip("\n")


SCHEMA_WIDTH, SCHEMA_PART = 200, 800
"""Maximum characters of a line of the CRD, where YAML can break it, and of a part of its schema that stays together."""


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and equal parts in full."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - a hook of the base class
        """Write no `*id001` aliases, so that each container of a manifest is complete."""
        return True


def _scalar(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _scalar)


class _SchemaDumper(_Dumper):
    """Indents only large parts: half of a CRD with one line for each field would be indentation."""

    def represent_mapping(
        self,
        tag: str,
        mapping: Any,  # noqa: ANN401 - as the base class
        flow_style: bool | None = None,  # noqa: FBT001 - as the base class
    ) -> yaml.MappingNode:
        """The node of a mapping; a small one stays together."""
        node = super().represent_mapping(tag, mapping, flow_style)
        node.flow_style = node.flow_style or len(str(mapping)) <= SCHEMA_PART
        return node


def dump(manifests: Sequence[Manifest]) -> str:
    return "".join(f"---\n{yaml.dump(m, Dumper=_Dumper, sort_keys=False, width=110)}" for m in manifests)


def schema_text(manifest: Manifest) -> str:
    """A CRD as YAML with one line for each small part of the schema, which keeps deep nesting short."""
    head = {name: value for name, value in manifest.items() if name != "spec"}
    spec = {"spec": manifest["spec"]}
    return dump([head]) + yaml.dump(
        spec, Dumper=_SchemaDumper, sort_keys=False, default_flow_style=None, width=SCHEMA_WIDTH
    )
