"""Limits of each API key's user over all routers: the values of limits.cfg.j2."""

from collections.abc import Mapping

from inference_operator.router.error_response import RATE, ErrorResponse
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.resources import load_of_all_threads

_OVER_LIMIT = ErrorResponse(
    429, RATE, "rate_limit_exceeded", "the user of this API key has reached its limit of requests"
)


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    keys = inputs.spec.keys
    if keys is None or (keys.requests_per_minute or keys.max_concurrent) is None:
        return None
    return {
        "load": load_of_all_threads(inputs.spec.resources),
        "requests_per_minute": keys.requests_per_minute or 0,
        "max_concurrent": keys.max_concurrent or 0,
    }
