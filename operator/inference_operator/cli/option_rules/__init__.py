"""The options of `infd arguments`."""

import argparse

from inference_operator.api.engine_kind import EngineKind
from inference_operator.cli.options import add_output
from inference_operator.cli.parser import examples


def add_arguments(arguments: argparse.ArgumentParser) -> None:
    arguments.description = (
        "Use it before you write `spec.engine.args` or `spec.engine.env`. Say who may set the arguments and variables"
        " of engines whose names contain a word, what they do, and what to use instead of those that are refused. What"
        " is not listed needs the right to create pods with vLLM, and is refused with other engines."
    )
    arguments.add_argument("word", nargs="?", default="", help="part of a name; default: all")
    kinds = [str(kind) for kind in EngineKind if kind is not EngineKind.AUTO]
    arguments.add_argument("--engine", choices=kinds, default=kinds[0], help=f"kind of the engine; default {kinds[0]}")
    add_output(arguments)
    arguments.epilog = examples("infd arguments max-num", "infd arguments --engine LlamaCpp -o json")
    arguments.set_defaults(run="option_rules.command:run")
