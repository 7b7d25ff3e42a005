"""Requests of ModelGateways: the values of gateway_key.cfg.j2."""

from collections.abc import Mapping

from inference_operator.api.router import RouterAccess
from inference_operator.objects import gateway_key
from inference_operator.router.error_response import SERVER, ErrorResponse
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.keys import MARK_LETTERS
from inference_operator.router.retries import ENGINES

GATEWAY_KEY_FOLDER = "/etc/haproxy-gateway-key"
"""Where the Secret with the key is mounted in routers' pods; the folder is empty without it."""

_USER = "^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$"
"""A user, as keys.lua takes one from a line of a keys file."""
_PRIORITY = "^-?[0-9]{1,4}$"
"""HAProxy's classes of priority are -2047 to 2047 (3.0, configuration manual, `set-priority-class`)."""

_GATEWAYS_ONLY = ErrorResponse(
    403,
    "permission_error",
    "gateways_only",
    "this model takes requests of a ModelGateway only (router.access): send them to the address of the gateway",
)
_NO_ATTEMPT = ErrorResponse(
    502, SERVER, "engine_failed", f"{ENGINES} engines may have ended with this request: it is not sent to another"
)


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    if inputs.is_gateway:
        return None
    return {
        "mark_letters": MARK_LETTERS,
        "file": f"{GATEWAY_KEY_FOLDER}/{gateway_key.GATEWAY_KEY_ENTRY}",
        "current": "current",
        "former": "former",
        "headers": gateway_key.GATEWAY_HEADERS,
        "key_header": gateway_key.GATEWAY_KEY_HEADER,
        "user_header": gateway_key.GATEWAY_USER_HEADER,
        "priority_header": gateway_key.GATEWAY_PRIORITY_HEADER,
        "attempts_header": gateway_key.GATEWAY_ATTEMPTS_HEADER,
        "attempts": f"^[0-{ENGINES - 1}]$",
        "shows_users": inputs.spec.metrics.users,
        "is_required": inputs.spec.access is RouterAccess.GATEWAYS_ONLY,
    }
