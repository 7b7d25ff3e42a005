"""`infd crd`: the CustomResourceDefinition."""

import argparse

from inference_operator.api.crd import crd
from inference_operator.cli.yaml_documents import schema_text
from inference_operator.engines.registry import EngineRegistry


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the description of `infd crd`."""
    command.description = "Print the CustomResourceDefinition, as YAML."
    command.set_defaults(run=run_crd)


def run_crd(_options: argparse.Namespace, _engines: EngineRegistry) -> int:
    """Print the CustomResourceDefinition."""
    print(schema_text(crd()), end="")
    return 0
