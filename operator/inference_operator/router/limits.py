"""Limits of each API key's user over all routers: the values of limits.cfg.j2."""

from collections.abc import Mapping

from inference_operator.api.router import RouterSpec
from inference_operator.router.error_response import RATE, ErrorResponse
from inference_operator.router.inputs import RouterInputs

_OVER_LIMIT = ErrorResponse(
    429, RATE, "rate_limit_exceeded", "the user of this API key has reached its limit of requests"
)


def limits_keys(spec: RouterSpec) -> bool:
    """Whether a rate or a number of requests in flight is limited for each user."""
    return spec.keys is not None and (spec.keys.requests_per_minute or spec.keys.max_concurrent) is not None


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    keys = inputs.spec.keys
    if keys is None or not limits_keys(inputs.spec):
        return None
    return {
        "requests_per_minute": keys.requests_per_minute or 0,
        "max_concurrent": keys.max_concurrent or 0,
    }
