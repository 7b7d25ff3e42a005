"""`infd`: what the operator would do, without a cluster."""

import argparse
import sys
from collections.abc import Sequence

import yaml
from pydantic import ValidationError

from inference_operator import __version__
from inference_operator.api.crd import crd
from inference_operator.api.policy import policy
from inference_operator.cli.files import documents
from inference_operator.cli.fit import add_fit
from inference_operator.cli.gpus import settings_with
from inference_operator.cli.inspect import add_inspect
from inference_operator.cli.mistake import MISTAKE, MistakeError
from inference_operator.cli.offline import (
    add_source,
    model_of,
    name_of,
    offline_inputs,
    why_nothing,
)
from inference_operator.cli.parser import STATUSES, Parser
from inference_operator.cli.plan import add_plan
from inference_operator.manifest import Manifest
from inference_operator.pipeline import outcome
from inference_operator.settings import complaints

SCHEMA_WIDTH = 140
"""Characters of a line of the CRD, where YAML can break it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    options = parser().parse_args(arguments)
    try:
        sys.exit(options.run(options))
    except MistakeError as mistake:
        _complain(str(mistake))
    except ValidationError as error:
        _complain("\n".join(complaints(error)))
    sys.exit(MISTAKE)


def parser() -> argparse.ArgumentParser:
    """All commands with their arguments."""
    found: argparse.ArgumentParser = Parser(
        prog="infd", description="What inference-operator would do, without a cluster.", epilog=STATUSES
    )
    found.add_argument("--version", action="version", version=__version__, help="show the version and exit")
    commands = found.add_subparsers(required=True, metavar="COMMAND")
    render = commands.add_parser(
        "render",
        help="print the objects that InferenceDeployments become",
        description="The objects that the operator would make, as YAML, on the GPUs that --gpu names. What is refused"
        " is told on standard error; the others are printed all the same.",
    )
    add_source(render)
    render.set_defaults(run=_render)
    add_plan(commands)
    add_fit(commands)
    add_inspect(commands)
    for name, what, run in (
        ("crd", "the CustomResourceDefinition", _crd),
        ("policy", "the ValidatingAdmissionPolicy and its binding", _policy),
    ):
        commands.add_parser(name, help=f"print {what}", description=f"Print {what}, as YAML.").set_defaults(run=run)
    return found


def _crd(_: argparse.Namespace) -> int:
    print(schema_text(crd()), end="")
    return 0


def _policy(_: argparse.Namespace) -> int:
    print(dump(policy()), end="")
    return 0


def _render(options: argparse.Namespace) -> int:
    settings, model, failures = settings_with(options.gpu), model_of(options.model), 0
    for document in documents(options.filename):
        result = outcome(offline_inputs(document, settings, model=model))
        if why := why_nothing(result):
            failures += _complain(f"{name_of(document)}: {why}")
        else:
            print(dump(list(result.desired.values())), end="")
    return min(failures, 1)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as it is read, not as one quoted line, and what is said twice, twice."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - a hook of the base class
        """No `*id001`: each container of a manifest is read on its own."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def dump(manifests: Sequence[Manifest]) -> str:
    """Objects as YAML documents."""
    return "".join(f"---\n{yaml.dump(m, Dumper=_Dumper, sort_keys=False, width=110)}" for m in manifests)


def schema_text(manifest: Manifest) -> str:
    """An object with a schema as YAML: what nests deeply is short only with its leaves on one line each."""
    head = {name: value for name, value in manifest.items() if name != "spec"}
    spec = {"spec": manifest["spec"]}
    return dump([head]) + yaml.dump(spec, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=SCHEMA_WIDTH)


def _complain(message: str) -> int:
    print(message, file=sys.stderr)
    return 1
