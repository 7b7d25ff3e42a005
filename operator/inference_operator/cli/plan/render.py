"""`infd render`: the objects that the operator would create."""

import argparse
import sys

from inference_operator.cli.files import documents
from inference_operator.cli.gpus import settings_with
from inference_operator.cli.offline import model_of, name_of, offline_inputs, why_nothing
from inference_operator.cli.parser import EXIT_REFUSED
from inference_operator.cli.yaml_documents import dump
from inference_operator.engines.registry import EngineRegistry
from inference_operator.pipeline.decide import outcome


def run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    """Print the objects of every resource of the files; returns 1 if one of them is rejected."""
    settings, model, status = settings_with(options.gpu), model_of(options.model), 0
    for document in documents(options.filename):
        result = outcome(offline_inputs(document, settings, engines, model=model))
        if why := why_nothing(result):
            print(f"{name_of(document)}: {why}", file=sys.stderr)
            status = EXIT_REFUSED
        else:
            print(dump(list(result.desired.values())), end="")
    return status
