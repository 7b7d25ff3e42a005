"""`infd crd`: the CustomResourceDefinition, or the JSON Schema for editors."""

import argparse
import json

from inference_operator.api.crd import crd
from inference_operator.api.editor_schema import editor_schema
from inference_operator.cli.yaml_documents import schema_text
from inference_operator.engines.registry import EngineRegistry


def run(options: argparse.Namespace, _engines: EngineRegistry) -> int:
    """Print the CustomResourceDefinition or the JSON Schema."""
    print(json.dumps(editor_schema(), indent=1) + "\n" if options.json_schema else schema_text(crd()), end="")
    return 0
