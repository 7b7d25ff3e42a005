"""Output formats of `infd`: tables for people, JSON and YAML for programs, and YAML documents for `kubectl apply`."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from typing import Any, TypeVar

import yaml

from inference_operator.api.json_names import json_name
from inference_operator.cli.parser import UsageError, harmless
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest

_Shown = TypeVar("_Shown")
Columns = Mapping[str, Callable[[_Shown], str]]
GAP, NOTHING = "  ", "-"
NAME = f"{INFERENCE_DEPLOYMENT.name.lower()}.{INFERENCE_DEPLOYMENT.group}/"
"""Before the name of a resource, as `kubectl get -o name` has it."""
TABLES = ("table", "wide")
"""Formats for people; the others are for programs."""
SCHEMA_WIDTH, SCHEMA_PART = 200, 800
"""Maximum characters of a line of the CRD, where YAML can break it, and of a part of its schema that stays together."""


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns, all left-aligned as kubectl's; a row may be shorter than others.

    Examples:
        >>> table([("NAME", "GPU", "TENSOR"), ("qwen3-8b", "L4", "2"), ("x", "-")])
        ['NAME      GPU  TENSOR', 'qwen3-8b  L4   2', 'x         -']
    """
    widths = [max(len(cell) for cell in column) for column in zip_longest(*rows, fillvalue="")]
    return [GAP.join(map(str.ljust, row, widths)).rstrip() for row in rows]


def table_of(columns: Columns[_Shown], shown: Iterable[_Shown]) -> list[str]:
    return table([tuple(columns), *(tuple(cell(one) for cell in columns.values()) for one in shown)])


def shown(value: float | None, form: str = "{:,}") -> str:
    return NOTHING if value is None else form.format(value)


def dumped(shown: object, form: str) -> str:
    r"""What a command found, for programs: an object, or a list of them in `items`, however many there are.

    Examples:
        >>> dumped([{"name": "qwen", "enginesReady": "1/1"}], "yaml")
        'items:\n- name: qwen\n  enginesReady: 1/1'
        >>> dumped([{"name": "qwen"}], "name")
        'inferencedeployment.inference-operator.dev/qwen'
    """
    found = document(shown)
    if form == "name":
        named = found if isinstance(found, list) else [found]
        return "\n".join(dict.fromkeys(f"{NAME}{one['name']}" for one in named))
    return manifest_text({"items": found} if isinstance(found, list) else found, form)


def can_watch(options: argparse.Namespace) -> None:
    if options.watch and (options.output not in TABLES or not sys.stdout.isatty()):
        raise UsageError("--watch needs a terminal, and a table as output.")


def progress_aside(form: str) -> AbstractContextManager[object]:
    """What a command prints on its way; to standard error, where standard output is for programs."""
    return nullcontext() if form in TABLES else redirect_stdout(sys.stderr)


def print_found(found: object, form: str, lines: Iterable[str]) -> None:
    print(harmless("\n".join(lines)) if form in TABLES else dumped(found, form))


def manifest_text(shown: object, form: str) -> str:
    if form == "json":
        return json.dumps(shown, indent=2)
    text: str = yaml.dump(shown, Dumper=_Dumper, sort_keys=False, width=110)
    return text.rstrip("\n")


def manifests_text(made: Sequence[Manifest], form: str) -> str:
    """Objects for `kubectl apply`: documents of YAML, or as JSON one object or a List."""
    if form == "json":
        return manifest_text(made[0] if len(made) == 1 else {"apiVersion": "v1", "kind": "List", "items": made}, form)
    return "\n---\n".join(manifest_text(one, form) for one in made)


def document(value: object) -> Any:  # noqa: ANN401 - what JSON can have
    """A report as JSON has it: fields in camelCase, keys of mappings as they are, which may be a user's.

    Examples:
        >>> document({"my_model": 1})
        {'my_model': 1}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {json_name(field.name): document(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: document(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [document(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


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
