"""Known errors that are no engine's own: of the hub's client, of safetensors, and of the check of GPUs."""

from collections.abc import Mapping, Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import KnownError, known_error, known_errors

_GPUS = r"[\w .,:()@/+-]{1,200}"
"""GPUs with numbers, names and sizes, as `engines/gpu_check.py` prints them."""

SHARED_ERRORS: Mapping[str, Sequence[KnownError]] = {
    "hub": known_errors(__package__, "hub-errors"),
    "weights": [
        # safetensors 0.8
        known_error(
            Reason.INVALID_MODEL,
            r"(?:SafetensorError|Error while deserializing header)",
            "the weights are damaged. Copy the model again",
        )
    ],
    "gpus": [
        # engines/gpu_check.py
        known_error(
            Reason.WRONG_GPU,
            rf"wrong GPU: the engine was sized for (?P<need>{_GPUS}); this node gives it (?P<has>{_GPUS})",
            "the engine was sized for {need}, but its node gives it {has}. Correct the node's labels or `gpuNodeLabels`"
            " of the operator, or name this GPU in `spec.hardware.gpu.products`",
        )
    ],
}
"""Errors by the name that stands for them in the tables of engines."""
