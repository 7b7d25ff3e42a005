"""The model of a command line: its own files on the hub, else the catalogue, as the operator reads them."""

from inference_operator.api.hardware import Device
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.engines.registry import ENGINES
from inference_operator.jobs.inspection_result import InspectionResult
from inference_operator.models.facts import ModelFacts
from inference_operator.models.source import HubModel, file_of, model_source
from inference_operator.planning.known_model import known_model
from inference_operator.settings import ModelInspection, Settings


def hub_model(
    source_text: str, revision: str | None, settings: Settings, *, allow_pickle: bool = False
) -> InspectionResult | None:
    """The model as the hub has it; None if it is no model of a hub, or if the settings prefer the catalogue.

    Args:
        source_text: value of `spec.model.source`.
        revision: branch, tag or commit; None is the default branch.
        settings: the operator's settings.
        allow_pickle: whether the weights may be pickle files.
    """
    source = model_source(source_text)
    if not isinstance(source, HubModel):
        return None
    known = known_model(source, revision)
    sufficient = known is not None and isinstance(known.facts, ModelFacts)
    if settings.model_inspection is ModelInspection.WHEN_UNKNOWN and sufficient:
        return None
    from inference_operator.model_files.hub import inspect_hub  # noqa: PLC0415 - half a second, and 60 MiB

    return inspect_hub(source.repository, revision, allow_pickle=allow_pickle, file=source.file)


def model_of_spec(spec: Spec | Refusal, revision: str | None, settings: Settings) -> InspectionResult | None:
    """The same for a resource. On CPUs some engines need no facts."""
    if isinstance(spec, Refusal):
        return None
    source = model_source(spec.model.source)
    names_file = not isinstance(source, Refusal) and bool(file_of(source))
    needs_facts = names_file or ENGINES[ENGINES.of_kind(spec.engine.kind)].needs_inspection
    if spec.hardware.device is Device.CPU and not needs_facts:
        return None
    return hub_model(spec.model.source, revision, settings, allow_pickle=spec.model.allow_pickle)
