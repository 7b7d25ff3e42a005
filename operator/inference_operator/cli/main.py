"""`infd`: what the operator would do, without a cluster."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml
from pydantic import ValidationError

from inference_operator import __version__
from inference_operator.api.crd import crd
from inference_operator.api.policy import policy
from inference_operator.api.resource import resource
from inference_operator.cli.fit import add_fit
from inference_operator.manifest import API_VERSION, KIND, Manifest
from inference_operator.pipeline import Inputs, Paused, Refused, outcome
from inference_operator.settings import Settings, complaints

UNKNOWN_UID = "00000000-0000-0000-0000-000000000000"
"""Stands for the uid that the API server gives out on creation."""

SCHEMA_WIDTH = 140
"""Characters of a line of the CRD, where YAML can break it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    options = _parser().parse_args(arguments)
    try:
        sys.exit(options.run(options))
    except ValidationError as error:
        print("\n".join(complaints(error)), file=sys.stderr)
        sys.exit(2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="infd", description="What inference-operator would do, without a cluster.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    render = commands.add_parser("render", help="print the objects that InferenceDeployments become")
    render.add_argument(
        "-f", "--filename", required=True, help="file with InferenceDeployments; - reads standard input"
    )
    render.set_defaults(run=_render)
    add_fit(commands)
    commands.add_parser("crd", help="print the CustomResourceDefinition").set_defaults(run=_crd)
    commands.add_parser("policy", help="print the ValidatingAdmissionPolicy and its binding").set_defaults(run=_policy)
    return parser


def _crd(_: argparse.Namespace) -> int:
    print(schema_text(crd()), end="")
    return 0


def _policy(_: argparse.Namespace) -> int:
    print(dump(policy()), end="")
    return 0


def _render(options: argparse.Namespace) -> int:
    try:
        text = sys.stdin.read() if options.filename == "-" else Path(options.filename).read_text(encoding="utf-8")
        documents = list(_inference_deployments(text))
    except OSError as error:
        return _complain(f"{options.filename}: {error.strerror}.")
    except UnicodeDecodeError:
        return _complain(f"{options.filename}: is no UTF-8 text.")
    except yaml.YAMLError as error:
        return _complain(f"{options.filename}: is no YAML: {' '.join(str(error).split())}")
    if not documents:
        return _complain(f"{options.filename}: holds no {KIND} of {API_VERSION}.")
    failures = 0
    for document in documents:
        result = outcome(offline_inputs(document))
        if isinstance(result, Paused):
            failures += _complain(f"{_metadata(document).get('name', '?')}: spec.paused: is true: nothing is made.")
        elif isinstance(result, Refused):
            failures += _complain(f"{_metadata(document).get('name', '?')}: {result.refusal.message}")
        else:
            print(dump(list(result.desired.values())), end="")
    return min(failures, 1)


def offline_inputs(document: Manifest) -> Inputs:
    """What the pipeline would see of a resource that was created a moment ago."""
    meta = {"namespace": "default", "uid": UNKNOWN_UID, "generation": 1, **_metadata(document)}
    return Inputs(
        resource=resource({**document, "metadata": meta}),
        children={},
        pods=(),
        settings=Settings(),
        now=datetime.now(UTC),
    )


def _metadata(document: Manifest) -> Manifest:
    meta = document.get("metadata")
    return meta if isinstance(meta, dict) else {}


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


def _inference_deployments(text: str) -> Iterator[Manifest]:
    for document in yaml.safe_load_all(text):
        if isinstance(document, dict) and (document.get("apiVersion"), document.get("kind")) == (
            API_VERSION,
            KIND,
        ):
            yield document


def _complain(message: str) -> int:
    print(message, file=sys.stderr)
    return 1
