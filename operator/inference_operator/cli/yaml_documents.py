"""Objects as YAML documents, as `kubectl apply` reads them."""

from collections.abc import Sequence
from typing import Any

import yaml

from inference_operator.manifest import Manifest

SCHEMA_WIDTH, SCHEMA_PART = 200, 800
"""Maximum characters of a line of the CRD, where YAML can break it, and of a part of its schema that stays together."""


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and equal parts in full."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - a hook of the base class
        """Write no `*id001` aliases, so that each container of a manifest is complete."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


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
    """Objects as YAML documents."""
    return "".join(f"---\n{yaml.dump(m, Dumper=_Dumper, sort_keys=False, width=110)}" for m in manifests)


def schema_text(manifest: Manifest) -> str:
    """A CRD as YAML with one line for each small part of the schema, which keeps deep nesting short."""
    head = {name: value for name, value in manifest.items() if name != "spec"}
    spec = {"spec": manifest["spec"]}
    return dump([head]) + yaml.dump(
        spec, Dumper=_SchemaDumper, sort_keys=False, default_flow_style=None, width=SCHEMA_WIDTH
    )
