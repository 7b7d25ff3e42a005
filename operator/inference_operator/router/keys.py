"""API keys of users: the values of keys.cfg.j2.

Its map has users by the hash of their key. It is empty, and the script fills it. It is a file since HAProxy 3.0.11
shares no map with `virt@` or `opt@` between two rules.
"""

from collections.abc import Mapping

from inference_operator.api.router import KEYS_FILE, KeysOfGateways
from inference_operator.router.error_response import ErrorResponse
from inference_operator.router.inputs import RouterInputs

MARK_LETTERS = 16
"""Hexadecimal digits of a user's mark: no two of the users that a Secret has room for have the same."""

KEYS_FOLDER = "/etc/haproxy-keys"
"""Where the Secret with the API keys is mounted."""

_OF_GATEWAYS = "-gateway"
"""User of requests that a gateway names none for."""

_UNAUTHORIZED = ErrorResponse(
    401, "authentication_error", "invalid_api_key", "a valid API key is required: send it as Authorization: Bearer KEY"
)


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    if inputs.spec.keys is None:
        return None
    return {
        "file": f"{KEYS_FOLDER}/{KEYS_FILE}",
        "trusts_gateways": inputs.spec.keys.gateways is KeysOfGateways.TRUST,
        "shows_users": inputs.spec.metrics.users,
    }
