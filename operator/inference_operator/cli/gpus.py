"""The option `--gpu`, which declares the GPUs of a node."""

from collections.abc import Sequence

from inference_operator.cli.parser import UsageError
from inference_operator.hardware.kinds import GPU_KINDS
from inference_operator.hardware.offers import GpuOffer, declared_offer
from inference_operator.settings import DECLARED_GPUS, Settings


def named_gpus(text: str) -> GpuOffer:
    """The GPUs that one argument names; raises `UsageError` for an unknown kind.

    Examples:
        >>> named_gpus("L4:4").per_node, named_gpus("L4").per_node
        (4, 1)
    """
    declared = _declared(text)
    if not DECLARED_GPUS.fullmatch(declared):
        raise UsageError(f"--gpu: `{text}` is not a kind and number of GPUs. Use for example `--gpu L4:4`.")
    offer = declared_offer(declared)
    if offer is None:
        known = ", ".join(kind.name for kind in GPU_KINDS)
        raise UsageError(f"--gpu: `{text}` is not known. Known kinds: {known}.")
    return offer


def settings_with(gpus: Sequence[str]) -> Settings:
    """The operator's settings, with these GPUs declared as `gpuOffers`."""
    for text in gpus:
        named_gpus(text)
    return Settings(gpu_offers=tuple(_declared(text) for text in gpus)) if gpus else Settings()


def _declared(text: str) -> str:
    """In the format of the setting `gpuOffers`; one GPU if no number is given."""
    return text if ":" in text else f"{text}:1"
