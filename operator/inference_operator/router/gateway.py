"""A ModelGateway: the values of gateway.cfg.j2, for routers whose engines are the routers of models."""

import re
from collections.abc import Mapping

from inference_operator.objects import gateway_key
from inference_operator.router.error_response import INVALID, RATE, SERVER, SHOWN, ErrorResponse
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import CONFIG_FOLDER
from inference_operator.router.retries import ENGINES

MODELS_PREFIX = "/models/"
"""Before the name of a model in the path form, which works for requests without a body too."""

TARGET_HEADER = "x-inference-target"
"""Header of an answer: the InferenceDeployment that gave it."""

_NEXT_HEADER = "x-inference-next"
"""Within a gateway: where a request goes whose first target could not take it."""

_NAME_IT = (
    "name the model: in `model` of the body, or in the path, as `/models/NAME/v1/...`, which works for every request;"
    " `GET /v1/models` lists the names"
)
_NO_MODEL = ErrorResponse(400, INVALID, "model_missing", _NAME_IT, param="model")
_UNAVAILABLE = ErrorResponse(
    503,
    SERVER,
    "model_unavailable",
    "the model `<name>` cannot answer now: its InferenceDeployment says <reason>",
    param="model",
)
_TOO_MANY = ErrorResponse(429, RATE, "queue_full", "too many requests for the model `<name>` are open", 2)
_NAME = f"var(txn.asked),{SHOWN}"


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    if not inputs.is_gateway:
        return None
    owner = inputs.owner.key
    return {
        "map": f"{CONFIG_FOLDER}/adapters.map",
        "session_header": inputs.spec.session_header,
        "prefix": MODELS_PREFIX,
        "by_path": _by_path(inputs.api_paths),
        "unavailable": _UNAVAILABLE.log_format(name=_NAME, reason=f"var(txn.reason),{SHOWN}"),
        "too_many": _TOO_MANY.log_format(name=_NAME),
        "retry_after": _TOO_MANY.retry_after,
        "host": f"{owner.namespace}.svc.{inputs.settings.cluster_domain}",
        "headers": (*gateway_key.GATEWAY_HEADERS, _NEXT_HEADER),
        "key_header": gateway_key.GATEWAY_KEY_HEADER,
        "user_header": gateway_key.GATEWAY_USER_HEADER,
        "priority_header": gateway_key.GATEWAY_PRIORITY_HEADER,
        "attempts_header": gateway_key.GATEWAY_ATTEMPTS_HEADER,
        "attempts_before": ENGINES - 1,
    }


def _by_path(api_paths: tuple[str, ...]) -> str:
    """A regular expression of a path in the path form: the name of the model, and the path of the API.

    Examples:
        >>> re.fullmatch(_by_path(("/v1/chat", "/rerank")), "/models/Qwen/Qwen3-8B/v1/chat/x").groups()
        ('Qwen/Qwen3-8B', '/v1/chat/x')
    """
    starts = "|".join(sorted({re.escape(path).replace(r"\-", "-") for path in (*api_paths, "/v1/models")}))
    return f"^{MODELS_PREFIX}(.+?)((?:{starts})(?:/.*)?)$"
