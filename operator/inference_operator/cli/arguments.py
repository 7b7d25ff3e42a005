"""Values of arguments: the GPUs of `--gpu`, and a model by its name on the hub or in the catalogue."""

from collections.abc import Sequence

from inference_operator.cli.parser import UsageError
from inference_operator.hardware.kinds import GPU_KINDS
from inference_operator.hardware.offers import GpuOffer, declared_offer
from inference_operator.jobs.inspection_result import InspectionResult
from inference_operator.models.facts import ModelFacts
from inference_operator.models.source import HubModel, model_source
from inference_operator.planning.known_model import known_model
from inference_operator.settings import DECLARED_GPUS, ModelInspection, Settings


def named_gpus(text: str) -> GpuOffer:
    declared = _declared(text)
    if not DECLARED_GPUS.fullmatch(declared):
        raise UsageError(f"--gpu: `{text}` is not a kind and number of GPUs. Use for example `--gpu L4:4`.")
    offer = declared_offer(declared)
    if offer is None:
        known = ", ".join(kind.name for kind in GPU_KINDS)
        raise UsageError(f"--gpu: `{text}` is not known. Known kinds: {known}.")
    return offer


def settings_with(gpus: Sequence[str]) -> Settings:
    for text in gpus:
        named_gpus(text)
    return Settings(gpu_offers=tuple(_declared(text) for text in gpus)) if gpus else Settings()


def _declared(text: str) -> str:
    """In the format of the setting `gpuOffers`; one GPU if no number is given."""
    return text if ":" in text else f"{text}:1"


def hub_model(
    source_text: str, revision: str | None, settings: Settings, *, allow_pickle: bool = False
) -> InspectionResult | None:
    """The model as the hub has it; None if it is no model of a hub, or if the settings prefer the catalogue."""
    source = model_source(source_text)
    if not isinstance(source, HubModel):
        return None
    known = known_model(source, revision)
    sufficient = known is not None and isinstance(known.facts, ModelFacts)
    if settings.model_inspection is ModelInspection.WHEN_UNKNOWN and sufficient:
        return None
    from inference_operator.model_files.hub import inspect_hub  # noqa: PLC0415 - half a second, and 60 MiB

    return inspect_hub(source.repository, revision, allow_pickle=allow_pickle, file=source.file)
