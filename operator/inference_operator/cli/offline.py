"""Inputs of the pipeline for resources from files: what the operator would observe right after their creation."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import Resource, resource
from inference_operator.cli.arguments import hub_model
from inference_operator.cli.files import stored, with_quoted_numbers
from inference_operator.cli.options import DEFAULT_NAMESPACE, file_text
from inference_operator.cli.parser import UsageError
from inference_operator.engines.base import Engine
from inference_operator.engines.registry import EngineRegistry
from inference_operator.jobs.inspection import model_record
from inference_operator.jobs.inspection_result import inspection_refusal, parsed_result
from inference_operator.jobs.result import LIMIT, Failure
from inference_operator.manifest import COSCHEDULING_GROUP, VOLCANO_GROUP, Manifest, Ref
from inference_operator.models.entry import Entry
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import NeedsInspection, Outcome, Paused, Refused
from inference_operator.settings import ModelInspection, Settings
from inference_operator.views.node import NodeView
from inference_operator.views.raw import mapping

UNKNOWN_UID = "00000000-0000-0000-0000-000000000000"
"""Placeholder for the uid that the API server assigns on creation."""


def why_nothing(result: Outcome) -> str:
    match result:
        case Paused():
            return "spec.paused: is true, so no objects would be created. Set it to false, or remove it."
        case NeedsInspection():
            return (
                "its model's files were not read, and the catalogue does not have it. In a cluster a Job reads them;"
                " here, give the output of `infd inspect -o json` with `--model FILE`."
            )
        case Refused(refusal=refusal):
            hint = " On the command line, declare GPUs with `--gpu L4:4`."
            return refusal.message + hint * (refusal.reason is Reason.NO_SUITABLE_GPU)
    return ""


def model_of(path: str | None) -> Entry | None:
    if path is None:
        return None
    result = parsed_result(file_text(path, LIMIT).strip())
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
    stored_models: Mapping[Ref, Manifest] | None = None,
) -> Inputs:
    """The inputs of the pipeline for a new resource; without a model, the hub is asked, then the catalogue."""
    raw = stored(document.get("spec"))
    metadata = {"namespace": DEFAULT_NAMESPACE, "uid": UNKNOWN_UID, "generation": 1, **mapping(document, "metadata")}
    new = resource({"spec": raw, "metadata": metadata})
    spec = with_quoted_numbers(new.spec, raw)
    new, engine = replace(new, spec=spec), engines[engines.default]
    children = _inspected(new, model, stored_models or {}, engine)
    if not (children or isinstance(spec, Refusal)):
        asked, revision = spec.model, _revision(new, engine)
        found = hub_model(asked.source, revision, settings, allow_pickle=asked.allow_pickle)
        if isinstance(found, Failure):
            new = _unread(new, found)
            settings = settings.model_copy(update={"model_inspection": ModelInspection.WHEN_UNKNOWN})
        children = _inspected(new, found if isinstance(found, Entry) else None, {}, engine)
    return Inputs(
        resource=new,
        children=children,
        pods=(),
        settings=settings,
        now=datetime.now(UTC),
        nodes=nodes,
        engines=engines,
        jobs=False,
        unavailable_kinds=dict.fromkeys((COSCHEDULING_GROUP, VOLCANO_GROUP), "no cluster was asked."),
    )


def _unread(new: Resource, failure: Failure) -> Resource:
    """The resource whose model's files could not be read: refused, unless the hub could not be asked."""
    if not failure.was_unanswered:
        return replace(new, spec=inspection_refusal(failure))
    print(f"{failure.message} The facts of the catalogue are used, where it has the model.", file=sys.stderr)
    return new


def _revision(new: Resource, engine: Engine) -> str | None:
    return None if isinstance(new.spec, Refusal) else engine.access(new.spec.engine, new.spec.model).revision


def _inspected(
    new: Resource, model: Entry | None, stored_models: Mapping[Ref, Manifest], engine: Engine
) -> Mapping[Ref, Manifest]:
    """The ConfigMap with the model; without one, that in which a cluster's operator has stored it for this resource."""
    if isinstance(new.spec, Refusal):
        return {}
    record = model_record(new.spec.model, _revision(new, engine), owner=new.owner)
    found = record.manifest(model) if model else stored_models.get(record.ref)
    return {record.ref: found} if found else {}


def name_of(document: Manifest) -> str:
    meta = mapping(document, "metadata")
    name = str(meta.get("name", "?"))
    return f"{meta['namespace']}/{name}" if meta.get("namespace") else name
