"""Runs a command of `infd`. A module of its own, because the archive of Jobs has all that `main` imports."""

import argparse

from pydantic import ValidationError

from inference_operator.cli.main import named
from inference_operator.cli.parser import UsageError
from inference_operator.engines.registry import ENGINES
from inference_operator.settings import setting_errors


def execute(options: argparse.Namespace, engines: object) -> int:
    try:
        if "kubeconfig" in options and "namespace" in options and options.namespace is None:
            options.namespace = named("cluster_command:namespace_of_context")(options)
        return int(named(options.run)(options, engines or ENGINES))
    except ValidationError as error:
        raise UsageError("\n".join(setting_errors(error))) from error
