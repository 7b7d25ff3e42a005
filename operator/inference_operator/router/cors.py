"""Browsers on other sites: the values of cors.cfg.j2."""

from collections.abc import Mapping

from inference_operator.router.error_response import INVALID, ErrorResponse
from inference_operator.router.inputs import RouterInputs

_PREFLIGHT_AGE_SECONDS = 7200
"""How long a browser need not ask again: Chromium keeps no answer longer (services/network/public/cpp/cors,
`kMaxTimeoutSeconds`)."""
_MOST_HEADERS_BYTES = 1024
"""Of the header names that a browser asks for and gets back: those of the `openai` package take 300."""
_NOT_ALLOWED = ErrorResponse(
    403,
    INVALID,
    "origin_not_allowed",
    "pages of this origin may not call the service: add it to `spec.router.cors.allowedOrigins`",
)


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    if inputs.spec.cors is None:
        return None
    return {
        "origins": inputs.spec.cors.allowed_origins,
        "age_seconds": _PREFLIGHT_AGE_SECONDS,
        "headers_bytes": _MOST_HEADERS_BYTES,
    }
