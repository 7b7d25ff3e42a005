"""`--gpu`: the GPUs of a node, as the command line names them."""

import argparse
from collections.abc import Sequence

from inference_operator.cli.mistake import MistakeError
from inference_operator.hardware.kinds import GPU_KINDS
from inference_operator.hardware.offers import GpuOffer, declared_offer
from inference_operator.settings import DECLARED_GPUS, Settings


def add_gpus(parser: argparse.ArgumentParser) -> None:
    """The argument that names them."""
    parser.add_argument(
        "--gpu",
        action="append",
        default=[],
        metavar="KIND[:COUNT]",
        help="GPUs of a node that there is or could be, such as L4:4; repeatable",
    )


def named_gpus(text: str) -> GpuOffer:
    """The GPUs that one argument names; raises `MistakeError` for those nobody knows.

    Examples:
        >>> named_gpus("L4:4").per_node, named_gpus("L4").per_node
        (4, 1)
    """
    declared = _declared(text)
    if not DECLARED_GPUS.fullmatch(declared):
        raise MistakeError(f"--gpu: `{text}` is no kind and number of GPUs. Write for example `--gpu L4:4`.")
    offer = declared_offer(declared)
    if offer is None:
        known = ", ".join(one.name for one in GPU_KINDS)
        raise MistakeError(f"--gpu: `{text}` is not known. Known: {known}.")
    return offer


def settings_with(gpus: Sequence[str]) -> Settings:
    """The operator's settings, which declare these GPUs if any are named."""
    for text in gpus:
        named_gpus(text)
    return Settings(gpu_offers=tuple(_declared(text) for text in gpus)) if gpus else Settings()


def _declared(text: str) -> str:
    """As the operator's setting `gpuOffers` has it; one GPU where no number is said."""
    return text if ":" in text else f"{text}:1"
