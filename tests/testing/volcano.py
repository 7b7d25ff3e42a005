"""The kind of Volcano's groups without its schema, for tests that ask only who may write it."""

import json
from pathlib import Path


def volcano_groups(folder: Path) -> Path:
    """A file in the folder with the definition of `podgroups.scheduling.volcano.sh`."""
    group, plural = "scheduling.volcano.sh", "podgroups"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": plural, "singular": "podgroup"},
            "versions": [version],
        },
    }
    file = folder / "volcano.json"
    file.write_text(json.dumps(definition))
    return file
