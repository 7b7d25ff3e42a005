"""Entry point of `infd`, the command line that shows without a cluster what the operator would do."""

import argparse
import sys
from collections.abc import Sequence

import yaml
from pydantic import ValidationError

from inference_operator import __version__
from inference_operator.api.crd import crd
from inference_operator.cli.cache.command import add_cache
from inference_operator.cli.download import add_download
from inference_operator.cli.explain import add_explain
from inference_operator.cli.files import documents
from inference_operator.cli.fit import add_fit
from inference_operator.cli.gpus import settings_with
from inference_operator.cli.inspect import add_inspect
from inference_operator.cli.key import add_key
from inference_operator.cli.offline import (
    add_source,
    model_of,
    name_of,
    offline_inputs,
    why_nothing,
)
from inference_operator.cli.parser import EXIT_REFUSED, EXIT_USAGE, STATUSES, Parser, UsageError
from inference_operator.cli.plan import add_plan
from inference_operator.cli.policy import add_policy
from inference_operator.cli.prune import add_prune
from inference_operator.engines.registry import ENGINES, EngineRegistry
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.settings import setting_errors

SCHEMA_WIDTH = 140
"""Maximum characters of a line of the CRD, where YAML can break it."""


def main(arguments: Sequence[str] | None = None, engines: EngineRegistry = ENGINES) -> None:
    """Run `infd` and exit.

    Args:
        arguments: the command line without the program name; None reads `sys.argv`.
        engines: the engines that models can be sized for.
    """
    options = parser().parse_args(arguments)
    try:
        sys.exit(options.run(options, engines))
    except UsageError as error:
        _print_error(str(error))
    except ValidationError as error:
        _print_error("\n".join(setting_errors(error)))
    sys.exit(EXIT_USAGE)


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    result: argparse.ArgumentParser = Parser(
        prog="infd", description="Show without a cluster what inference-operator would do.", epilog=STATUSES
    )
    result.add_argument("--version", action="version", version=__version__, help="show the version and exit")
    commands = result.add_subparsers(required=True, metavar="COMMAND")
    render = commands.add_parser(
        "render",
        help="print the objects that the operator would create",
        description="Print the objects that the operator would create, as YAML, for the GPUs of --gpu. Rejected"
        " resources are reported on standard error; the others are still printed.",
    )
    add_source(render)
    render.set_defaults(run=_render)
    add_plan(commands)
    add_fit(commands)
    add_inspect(commands)
    add_download(commands)
    add_cache(commands)
    add_prune(commands)
    add_explain(commands)
    add_key(commands)
    what = "the CustomResourceDefinition"
    commands.add_parser("crd", help=f"print {what}", description=f"Print {what}, as YAML.").set_defaults(run=_crd)
    add_policy(commands, dump)
    return result


def _crd(_options: argparse.Namespace, _engines: EngineRegistry) -> int:
    print(schema_text(crd()), end="")
    return 0


def _render(options: argparse.Namespace, engines: EngineRegistry) -> int:
    settings, model, status = settings_with(options.gpu), model_of(options.model), 0
    for document in documents(options.filename):
        result = outcome(offline_inputs(document, settings, engines, model=model))
        if why := why_nothing(result):
            _print_error(f"{name_of(document)}: {why}")
            status = EXIT_REFUSED
        else:
            print(dump(list(result.desired.values())), end="")
    return status


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and equal parts in full."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - a hook of the base class
        """Write no `*id001` aliases, so that each container of a manifest is complete."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def dump(manifests: Sequence[Manifest]) -> str:
    """Objects as YAML documents."""
    return "".join(f"---\n{yaml.dump(m, Dumper=_Dumper, sort_keys=False, width=110)}" for m in manifests)


def schema_text(manifest: Manifest) -> str:
    """A CRD as YAML with one line for each leaf of the schema, which keeps deep nesting short."""
    head = {name: value for name, value in manifest.items() if name != "spec"}
    spec = {"spec": manifest["spec"]}
    return dump([head]) + yaml.dump(spec, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=SCHEMA_WIDTH)


def _print_error(message: str) -> None:
    print(message, file=sys.stderr)
