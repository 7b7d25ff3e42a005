"""Known errors that are no engine's own: of the hub's client, of safetensors, and of the check of GPUs."""

from collections.abc import Mapping, Sequence

from inference_operator.engines.known_error import KnownError, known_errors

SHARED_ERRORS: Mapping[str, Sequence[KnownError]] = {
    name: known_errors(__package__, f"{name}-errors") for name in ("hub", "weights", "gpus")
}
"""Errors by the name that stands for them in the tables of engines."""
