"""Inputs of the pipeline for resources from files: what the operator would observe right after their creation."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import Resource, resource
from inference_operator.cli.api_server_rules import quoted_number, stored
from inference_operator.cli.gpus import add_gpus
from inference_operator.cli.parser import UsageError
from inference_operator.engines.base import Engine
from inference_operator.engines.registry import EngineRegistry
from inference_operator.inspection.config_map import model_config_map, model_config_ref
from inference_operator.inspection.result import LIMIT, Failure, parsed_result
from inference_operator.manifest import Manifest, Ref
from inference_operator.models.entry import Entry
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import NeedsInspection, Outcome, Paused, Refused
from inference_operator.settings import Settings
from inference_operator.views.node import NodeView

UNKNOWN_UID = "00000000-0000-0000-0000-000000000000"
"""Placeholder for the uid that the API server assigns on creation."""


NOT_INSPECTED = (
    "its model is not in the catalogue. In a cluster a Job inspects the model; here, give the output of"
    " `infd inspect -o json` with `--model FILE`."
)

PAUSED = "spec.paused: is true, so no objects would be created. Set it to false, or remove it."


def why_nothing(result: Outcome) -> str:
    """Why no objects would be created, with the cure on the command line; empty if objects would be created."""
    match result:
        case Paused():
            return PAUSED
        case NeedsInspection():
            return NOT_INSPECTED
        case Refused(refusal=refusal):
            hint = (
                " On the command line, declare GPUs with `--gpu L4:4`."
                if refusal.reason is Reason.NO_SUITABLE_GPU
                else ""
            )
            return refusal.message + hint
        case _:
            return ""


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the options for resources, GPUs and models."""
    parser.add_argument(
        "-f",
        "--filename",
        required=True,
        action="append",
        help="file or directory with InferenceDeployments; - reads standard input; repeatable",
    )
    add_gpus(parser)
    parser.add_argument(
        "--model", metavar="FILE", help="output of `infd inspect -o json`, for models that are not in the catalogue"
    )


def model_of(path: str | None) -> Entry | None:
    """The model of an output of `infd inspect`; raises `UsageError` if the file has none."""
    if path is None:
        return None
    try:
        with Path(path).open(encoding="utf-8") as file:
            result = parsed_result(file.read(LIMIT + 1).strip())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text.") from error
    if isinstance(result, Failure):
        raise UsageError(f"{path}: {result.message}")
    if result is None:
        raise UsageError(f"{path}: is not an output of `infd inspect -o json`.")
    return result


def offline_inputs(
    document: Manifest,
    settings: Settings,
    engines: EngineRegistry,
    *,
    nodes: Sequence[NodeView] | None = None,
    model: Entry | None = None,
) -> Inputs:
    """The inputs of the pipeline for a new resource whose model has been inspected."""
    spec = stored(document.get("spec"))
    new = resource({"spec": spec, "metadata": {**_NEW, **metadata(document)}})
    if refusal := quoted_number(spec):
        new = replace(new, spec=refusal)
    return Inputs(
        resource=new,
        children=_inspected(new, model, engines[engines.default]),
        pods=(),
        settings=settings,
        now=datetime.now(UTC),
        nodes=nodes,
        engines=engines,
    )


def _inspected(new: Resource, model: Entry | None, engine: Engine) -> Mapping[Ref, Manifest]:
    if model is None or isinstance(new.spec, Refusal):
        return {}
    revision = engine.access(new.spec.engine).revision
    ref = model_config_ref(new.spec.model.source, revision, owner=new.owner)
    return {ref: model_config_map(ref, model, owner=new.owner)}


_NEW: Manifest = {"namespace": "default", "uid": UNKNOWN_UID, "generation": 1}


def metadata(document: Manifest) -> Manifest:
    """The metadata of a document; empty if it has none."""
    meta = document.get("metadata")
    return meta if isinstance(meta, dict) else {}


def name_of(document: Manifest) -> str:
    """The name of a resource for messages, with the namespace if the file has one.

    Examples:
        >>> name_of({"metadata": {"name": "qwen"}}), name_of({"metadata": {"name": "qwen", "namespace": "a"}})
        ('qwen', 'a/qwen')
    """
    meta = metadata(document)
    name = str(meta.get("name", "?"))
    return f"{meta['namespace']}/{name}" if meta.get("namespace") else name
