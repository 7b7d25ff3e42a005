"""What is asked on the command line, and what the pipeline would see of them a moment after they were created."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import Resource, resource
from inference_operator.cli.gpus import add_gpus
from inference_operator.cli.mistake import MistakeError
from inference_operator.cli.stored import quoted_number, stored
from inference_operator.engines.chosen import chosen_engine
from inference_operator.manifest import Manifest, Ref
from inference_operator.models.entry import Entry
from inference_operator.models.inspected import LIMIT, Failure, inspection
from inference_operator.observed.node import NodeView
from inference_operator.pipeline import Inputs, NeedsInspection, Outcome, Paused, Planned, Refused
from inference_operator.resources.model_config_map import model_config_map, model_config_ref
from inference_operator.settings import Settings

UNKNOWN_UID = "00000000-0000-0000-0000-000000000000"
"""Stands for the uid that the API server gives out on creation."""


NOT_INSPECTED = (
    "its model is not in the catalogue. In a cluster a Job reads what its files say; here `--model FILE` does, which"
    " `infd inspect -o json` writes."
)

PAUSED = "spec.paused: is true, so nothing would be made. Set it to false, or leave it out."


def why_nothing(result: Outcome) -> str:
    """Why nothing would be made, with what helps here and not in a cluster; empty if something would."""
    match result:
        case Paused():
            return PAUSED
        case NeedsInspection():
            return NOT_INSPECTED
        case Refused(refusal):
            hint = " Here say which there are: `--gpu L4:4`." if refusal.reason is Reason.NO_SUITABLE_GPU else ""
            return refusal.message + hint
        case Planned():
            return ""


def add_source(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which resources, and for which GPUs."""
    parser.add_argument(
        "-f",
        "--filename",
        required=True,
        action="append",
        help="file or folder with InferenceDeployments; - reads standard input; repeatable",
    )
    add_gpus(parser)
    parser.add_argument(
        "--model", metavar="FILE", help="what `infd inspect -o json` says of models that are not in the catalogue"
    )


def model_of(path: str | None) -> Entry | None:
    """What `infd inspect` has said of a model; raises `MistakeError` where the file says nothing of the kind."""
    if path is None:
        return None
    try:
        with Path(path).open(encoding="utf-8") as file:
            found = inspection(file.read(LIMIT + 1).strip())
    except OSError as error:
        raise MistakeError(f"{path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise MistakeError(f"{path}: is no UTF-8 text.") from error
    if isinstance(found, Failure):
        raise MistakeError(f"{path}: {found.message}")
    if found is None:
        raise MistakeError(f"{path}: is not what `infd inspect -o json` writes.")
    return found


def offline_inputs(
    document: Manifest, settings: Settings, nodes: Sequence[NodeView] | None = None, model: Entry | None = None
) -> Inputs:
    """What the pipeline would see of a resource that was created a moment ago, and whose model has been inspected."""
    spec = stored(document.get("spec"))
    asked = resource({"spec": spec, "metadata": {**_NEW, **metadata(document)}})
    if refusal := quoted_number(spec):
        asked = replace(asked, spec=refusal)
    return Inputs(
        resource=asked,
        children=_inspected(asked, model),
        pods=(),
        settings=settings,
        now=datetime.now(UTC),
        nodes=nodes,
    )


def _inspected(asked: Resource, model: Entry | None) -> Mapping[Ref, Manifest]:
    if model is None or isinstance(asked.spec, Refusal):
        return {}
    revision = chosen_engine().access(asked.spec.engine).revision
    ref = model_config_ref(asked.spec.model.source, revision, owner=asked.owner)
    return {ref: model_config_map(ref, model, owner=asked.owner)}


_NEW: Manifest = {"namespace": "default", "uid": UNKNOWN_UID, "generation": 1}


def metadata(document: Manifest) -> Manifest:
    """The metadata of a document, whatever it holds."""
    meta = document.get("metadata")
    return meta if isinstance(meta, dict) else {}


def name_of(document: Manifest) -> str:
    """What to call it: its name, with the namespace if the file states one.

    Examples:
        >>> name_of({"metadata": {"name": "qwen"}}), name_of({"metadata": {"name": "qwen", "namespace": "a"}})
        ('qwen', 'a/qwen')
    """
    meta = metadata(document)
    name = str(meta.get("name", "?"))
    return f"{meta['namespace']}/{name}" if meta.get("namespace") else name
